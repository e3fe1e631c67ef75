"""Somebody's own network in whole runs: every method, frozen weights, and what a node refuses."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fedmirage.client.app import make_app
from fedmirage.common.errors import ConfigurationError, DataError, FedmirageError
from fedmirage.common.methods import METHODS
from fedmirage.common.models.files import load_model
from fedmirage.common.own_code import hash_source
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.server.run import run
from fedmirage.server.start import check_run
from tests.support.deployed import SMALL, deploy
from tests.support.inprocess import InProcessGrid, run_in_process
from tests.support.pairs import BATCH_NORM, line
from tests.support.rules import initial, named
from tests.support.runs import assert_same_bits, lines, weights

PLAIN = "tests.support.nets:Plain"
RICH = "tests.support.nets:Rich(head='fc')"
FIVE = ("fedcog", "vhl", "dynafed", "fedlgd", "fedmd-cg")


@pytest.mark.parametrize("model", [PLAIN, RICH])
@pytest.mark.parametrize("name", FIVE)
def test_methods_with_virtual_data_run_on_an_own_network(
    name: str, model: str, tmp_path: Path
) -> None:
    run_in_process(tmp_path, **{**SMALL, "model": model, "methods": line(name)})
    assert len(lines(tmp_path)) == 2
    assert all(np.isfinite(array).all() for array in weights(tmp_path))


def test_dropout_is_repeated_also_by_a_resumed_run(tmp_path: Path) -> None:
    """It draws from torch's own generator, which depends on nothing that ran before."""
    settings = {**SMALL, "model": RICH, "methods": line("dynafed")}
    run_in_process(tmp_path / "whole", **{**settings, "rounds": 3})
    run_in_process(tmp_path / "parts", **{**settings, "rounds": 2})
    run_in_process(
        tmp_path / "parts", **{**settings, "rounds": 3, "resume": str(tmp_path / "parts")}
    )
    assert_same_bits(tmp_path / "whole", tmp_path / "parts")


def test_the_results_name_the_network_and_its_source(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "model": PLAIN})
    (begun,) = lines(tmp_path, "config")
    assert begun["model"] == PLAIN
    assert begun["resolved"]["sources"] == {PLAIN: hash_source(PLAIN)}


def test_a_resumed_run_says_that_the_source_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_process(tmp_path, **{**SMALL, "model": PLAIN})
    now = {PLAIN: "sha256:of another file"}
    monkeypatch.setattr("fedmirage.server.record.results.hash_sources", lambda references: now)
    run_in_process(tmp_path, **{**SMALL, "model": PLAIN, "rounds": 3, "resume": str(tmp_path)})
    assert f"goes on with other source of {PLAIN}" in lines(tmp_path, "note")[0]["text"]
    assert lines(tmp_path, "config")[0]["resolved"]["sources"] == now


def test_reading_a_model_file_imports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(write_lab(tmp_path / "code", "filed_lab"))
    run_in_process(tmp_path, **{**SMALL, "model": "filed_lab:Net"})
    del sys.modules["filed_lab"]
    with pytest.raises(DataError, match="which is not part of fedmirage, and a file has nothing"):
        load_model(tmp_path / "model.safetensors")
    assert "filed_lab" not in sys.modules
    model, facts = load_model(tmp_path / "model.safetensors", "filed_lab:Net")
    assert model.feature_dim == 64
    assert facts.model == "filed_lab:Net"
    with pytest.raises(FedmirageError, match="both sides need the same model"):
        load_model(tmp_path / "model.safetensors", PLAIN)


def test_all_that_is_wrong_is_said_before_any_work(tmp_path: Path) -> None:
    settings = {**SMALL, "model": "tests.support.nets:Rich", "partition": "classes(per_client=20)"}
    with pytest.raises(ConfigurationError) as raised:
        check_run(configure(settings), tmp_path)
    told = "\n".join(raised.value.problems)
    assert "head='fc'" in told
    assert "per_client=20" in told


def test_data_that_are_not_there_and_a_network_that_is_not_are_said_together(
    tmp_path: Path,
) -> None:
    settings = {**SMALL, "model": "nowhere_at_all:Net", "dataset": "npz(path='/nowhere.npz')"}
    with pytest.raises(ConfigurationError) as raised:
        check_run(configure(settings), tmp_path)
    told = "\n".join(raised.value.problems)
    assert "no /nowhere.npz exists" in told
    assert "nowhere_at_all cannot be imported" in told


def test_a_file_and_a_pattern_that_are_wrong_are_said_together(tmp_path: Path) -> None:
    settings = {**SMALL, "initial_weights": "/nowhere.safetensors", "freeze": "xyz*"}
    with pytest.raises(ConfigurationError) as raised:
        check_run(configure(settings), tmp_path)
    first, second = raised.value.problems
    assert first.startswith("initial-weights: there is no")
    assert second.startswith("freeze='xyz*' matches no weight")


def test_a_part_without_weights_cannot_be_shared(tmp_path: Path) -> None:
    """FedPer shares the features, FedAvg everything."""
    for model, freeze in (("tests.support.nets:linear", ""), (PLAIN, "features.*")):
        settings = {**SMALL, "model": model, "freeze": freeze}
        check_run(configure(settings), tmp_path)
        with pytest.raises(ConfigurationError, match=r"shares the features of .*, where nothing"):
            check_run(configure({**settings, "methods": "fedper"}), tmp_path)


# Frozen weights and initial ones


def frozen_and_moved(config: RunConfig, folder: Path) -> tuple[list[str], list[str]]:
    """The names of what stayed, bit for bit, and of what did not, among what is shared."""
    before = dict(zip(named(config), initial(config), strict=True))
    after = read_arrays(folder / "model.safetensors")[0]
    stayed = [name for name in after if after[name].tobytes() == before[name].tobytes()]
    return stayed, [name for name in after if name not in stayed]


def test_freezing_nothing_changes_no_bit(tmp_path: Path) -> None:
    run_in_process(tmp_path / "plain", **SMALL)
    run_in_process(tmp_path / "none", **{**SMALL, "freeze": " , "})
    assert_same_bits(tmp_path / "plain", tmp_path / "none")


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("local", "fedper")])
def test_no_method_moves_what_is_frozen(name: str, tmp_path: Path) -> None:
    """The first layers with their batch norm stay; a method that shares none of it has no file."""
    settings = {**SMALL, "model": BATCH_NORM, "methods": line(name), "freeze": "features.*"}
    config = run_in_process(tmp_path, **{**settings, "clients": 3})
    stayed, moved = frozen_and_moved(config, tmp_path)
    assert all(name.startswith(("classifier.", "generator.", "discriminator.")) for name in moved)
    assert all(name.startswith("features.") for name in stayed) or not moved


@pytest.mark.parametrize(
    "privacy",
    [{"secagg": "on"}, {"dp": "central(clip=1, noise=1)"}, {"dp": "local(clip=1, noise=1)"}],
)
def test_neither_noise_nor_masks_move_what_is_frozen(
    privacy: dict[str, str], tmp_path: Path
) -> None:
    """Statistics of a frozen norm do not change either, so dp need not refuse them."""
    settings = {**SMALL, "clients": 3, "model": BATCH_NORM, "freeze": "features.*", **privacy}
    config = run_in_process(tmp_path, **settings)
    stayed, moved = frozen_and_moved(config, tmp_path)
    assert moved == ["classifier.bias", "classifier.weight"]
    assert len(stayed) == 6


def test_a_run_begins_with_the_weights_of_a_file(tmp_path: Path) -> None:
    """Its own model file after no step at all would be the same; after the head was tuned, the
    rest is."""
    run_in_process(tmp_path / "first", **{**SMALL, "model": RICH})
    file = tmp_path / "first" / "model.safetensors"
    tuned = {"initial_weights": str(file), "freeze": "stem.*, norm.*, block.*", "seed": 5}
    run_in_process(tmp_path / "second", **{**SMALL, "model": RICH, **tuned})
    first, second = (
        read_arrays(tmp_path / name / "model.safetensors")[0] for name in ("first", "second")
    )
    same = {name for name in first if first[name].tobytes() == second[name].tobytes()}
    assert same == {name for name in first if name.startswith("features.")}


# A deployed node


def write_lab(folder: Path, name: str, width: int = 4) -> Path:
    """A module that leaves a trace if it is imported."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(
        "from pathlib import Path\nfrom torch import nn\n\n"
        "Path(__file__).with_name('imported').touch()\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        f"        layers = nn.Conv2d(1, {width}, 3), nn.AdaptiveAvgPool2d(4), nn.Flatten()\n"
        "        self.features = nn.Sequential(*layers)\n"
        f"        self.classifier = nn.Linear(16 * {width}, 10)\n"
        "    def forward(self, images):\n"
        "        return self.classifier(self.features(images))\n"
    )
    return folder


def test_a_node_imports_nothing_that_its_owner_does_not_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may; the trace of its import is removed before the nodes are asked."""
    code = write_lab(tmp_path / "code", "refused_lab")
    monkeypatch.syspath_prepend(code)
    hash_source("refused_lab:Net")
    (code / "imported").unlink()
    sentence = "this node does not import refused_lab for a run; its owner lists what it may in"
    for allow in ({}, {"allow": "other_lab"}):
        with pytest.raises(FedmirageError, match=sentence):
            deploy(tmp_path / f"run{len(allow)}", allow, model="refused_lab:Net")


def test_a_node_does_not_even_import_python_itself_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dishonest server need not import it, so each node's answer counts; an honest one asks."""
    config = configure({**SMALL, "out": str(tmp_path)})
    grid = InProcessGrid(make_app(), config.clients)
    proof = tmp_path / "proof"
    evil = f"os:system(command='touch {proof}')"
    for context in grid.contexts.values():
        context.run_config = {**config.flat(), "model": evil}
    with pytest.raises(FedmirageError, match="this node does not import os for a run; its owner"):
        run(grid, config.model_copy(update={"node_timeout": 0.1}))
    with pytest.raises(FedmirageError, match="this node does not import os for a run; its owner"):
        deploy(tmp_path / "honest", {}, model=evil)
    assert not proof.exists()
    with pytest.raises(ConfigurationError, match="os belongs to Python itself"):
        check_run(configure({**SMALL, "model": evil}), tmp_path)
    assert not proof.exists()


def test_nodes_that_allow_it_train_and_give_the_same_bits(tmp_path: Path) -> None:
    deploy(tmp_path / "run", {"allow": "tests.support.nets"}, model=RICH)
    run_in_process(tmp_path / "plain", **{**SMALL, "model": RICH})
    assert_same_bits(tmp_path / "run", tmp_path / "plain")


def test_a_node_with_other_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server announces another hash than the node finds."""
    told = {"source " + PLAIN: "sha256:of another file"}
    monkeypatch.setattr("fedmirage.server.run.announce_sources", lambda references: told)
    sentence = "this node's tests.support.nets has other source than the server's"
    with pytest.raises(FedmirageError, match=sentence):
        deploy(tmp_path, {"allow": "tests.support.nets"}, model=PLAIN)


def test_a_node_opens_no_file_that_a_run_names(tmp_path: Path) -> None:
    """Where all weights come from the server it need not; else its owner names a copy."""
    run_in_process(tmp_path / "first", **SMALL)
    file = str(tmp_path / "first" / "model.safetensors")
    copy = tmp_path / "copy.safetensors"
    Path(file).rename(copy)
    copy.write_bytes(copy.read_bytes())
    begun = {"initial_weights": str(copy)}
    deploy(tmp_path / "whole", {}, **begun)
    sentence = "this node opens no file that a run names, such as initial-weights="
    with pytest.raises(FedmirageError, match=sentence):
        deploy(tmp_path / "refused", {}, **begun, methods="fedper")
    deploy(tmp_path / "own", {"weights": str(copy)}, **begun, methods="fedper")
    run_in_process(tmp_path / "plain", **{**SMALL, **begun, "methods": "fedper"})
    assert_same_bits(tmp_path / "own", tmp_path / "plain")
