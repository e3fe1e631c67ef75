"""What is refused before any round, in one sentence each."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.audit.plan import AuditPlan, make_plan
from fedmirage.common.errors import ConfigurationError
from tests.support.audits import TINY


def plan(tmp_path: Path, methods: str, attack: str, **settings: Any) -> AuditPlan:
    return make_plan([{**TINY, **settings}], {}, [methods], attack, tmp_path / "audit")


@pytest.mark.parametrize(
    ("methods", "attack", "settings", "sentence"),
    [
        (
            "fedavg",
            "membership",
            {"dataset": "digits(limit=300, size=8)"},
            "attack: membership holds out half of the 300 samples, and 150 members are too few to"
            " judge it by; take a larger set or a higher limit, for at least 200",
        ),
        (
            "fedavg",
            "membership",
            {"clients": 300},
            "nothing could be held out",
        ),
        ("fedavg", "membership(shadows=3)", {}, "shadows=3"),
        ("lg-fedavg", "membership", {}, "leaves clients with models of their own"),
        ("fedavg", "membership", {"participation": 0.5}, "participation=0.5"),
        (
            "fedavg",
            "copies",
            {},
            "copies compares images that a method makes, but methods='fedavg'",
        ),
        ("dynafed(min_participants=1)", "copies", {}, "after length=20 rounds, but rounds=2"),
        ("fedcog", "copies", {}, "which begin in round start=51, but rounds=2"),
        ("vhl", "copies", {"dataset": "breast-cancer"}, "dataset='breast-cancer' has none"),
        ("fedavg", "epsilon", {}, "epsilon checks a budget, but dp='off' has none"),
        ("fedavg", "epsilon", {"dp": "central(clip=1, noise=0)"}, "has none"),
        ("fedavg", "epsilon(runs=400)", {"dp": "central(clip=1, noise=1)"}, "runs=400"),
    ],
)
def test_what_cannot_be_attacked_is_refused(
    tmp_path: Path, methods: str, attack: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        plan(tmp_path, methods, attack, **settings)
    assert sentence in str(refused.value)
    assert not (tmp_path / "audit").exists()


def test_all_leaves_out_what_fits_no_method(tmp_path: Path) -> None:
    found = plan(tmp_path, "fedavg", "all")
    names = [job.attack.name for job in found.jobs]
    assert "membership" in names
    assert not {"copies", "epsilon"} & {*names}
    assert len(found.notes) >= 2
