"""Maps of features, from a real run."""

from pathlib import Path

from fedmirage.report.groups import find_groups
from fedmirage.report.runs import read_run
from fedmirage.report.sections.images import features, find_map
from tests.support.comparison import plan_records, write_records
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL


def test_test_samples_and_virtual_ones_are_mapped(tmp_path: Path) -> None:
    """VHL has four virtual samples per class here, which is fewer than a map shows at most."""
    run_in_process(tmp_path, **{**SMALL, "rounds": 1}, methods="vhl(per_class=4)")
    found = find_map(read_run(tmp_path))
    assert isinstance(found, dict)
    assert len(found["x"]) == len(found["y"]) == len(found["classes"]) == len(found["virtual"])
    assert sum(found["virtual"]) == 40
    assert set(found["classes"]) == {str(number) for number in range(10)}
    (group,) = find_groups([tmp_path]).groups
    section = features(group, tsne=True)
    assert section.plots["features"]["options"][0]["label"] == "vhl"
    assert "--tsne" in features(group, tsne=False).html


def test_a_run_without_what_a_map_needs_says_so(tmp_path: Path) -> None:
    """These records have no checkpoints, and one methods line has no global model."""
    write_records(plan_records(tmp_path, seeds="0"))
    (group,) = find_groups([tmp_path]).groups
    said = features(group, tsne=True).html
    assert "fedavg: there is no checkpoint" in said
    assert "lg-fedavg: it has no global model." in said
