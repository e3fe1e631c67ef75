"""Personal models: what a node trained, completed by what the run shared; no others see it."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.client.build import build_client
from fedmirage.client.node.keeping import FILE
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import LOCAL_MODEL, client_folder, read_newest
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import to_arrays
from fedmirage.common.wire.payload import LAYOUT, SHARED, pack
from fedmirage.trained.evaluation import evaluate
from fedmirage.trained.personal import LATEST, assemble
from tests.support.inprocess import run_in_process
from tests.support.runs import lines
from tests.support.trained import QUICK, save_pictures

LINES = ["fedper", "lg-fedavg", "fedmd-cg(server_steps=2, generated_batch=8)", "local"]


def run(folder: Path, methods: str, **more: Any) -> str:
    """Run a method that leaves something at home; return the id of the run."""
    run_in_process(folder, **{**QUICK, "dataset": "digits(size=8)", "methods": methods, **more})
    (memory,) = (folder / "memory").iterdir()
    return memory.name


@pytest.fixture(scope="module", params=LINES, ids=lambda line: line.partition("(")[0])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("run")
    return folder, run(folder, request.param)


def test_it_has_the_scores_that_the_node_reported(trained: tuple[Path, str]) -> None:
    folder, token = trained
    last = {client["partition"]: client for client in lines(folder)[-1]["clients"]}
    for partition in (0, 1):
        made = assemble(folder / "memory", token, partition)
        found = evaluate(made.trained, made.hold_out(), 0)["scores"]
        reported = last[partition]["local_model.on_test_shard.by_examples.accuracy"]
        assert found["accuracy"]["value"] == pytest.approx(reported, abs=1e-6)
        assert made.facts.round == 2


def test_the_shared_part_comes_from_the_file_of_the_run(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    """All that a client takes over is the file's, and all else is what it trained."""
    folder, token = trained
    if not (shared := folder / "model.safetensors").exists():
        assert lines(folder, "config")[0]["methods"] == "local"
        return
    made = assemble(folder / "memory", token, 1, shared)
    path = made.save(tmp_path / "mine.safetensors")
    _, old, _ = read_newest(client_folder(folder / "memory", token, 1), LATEST)
    whole = made.client.run.manifest
    kept, sent, (found, _) = whole.name(old[LOCAL_MODEL]), read_arrays(shared)[0], read_arrays(path)
    loaded = set(made.client.run.loaded.names)
    assert {name.partition(".")[0] for name in found} == {"features", "classifier"}
    for name, array in found.items():
        assert np.array_equal(array, sent[name] if name in loaded else kept[name]), name
    taken = [name for name in found if name in loaded]
    assert len(taken) < len(found), "nothing stayed at home"


def test_the_file_is_private_and_is_used_like_any_other(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    folder, token = trained
    made = assemble(folder / "memory", token, 0)
    path = made.save(tmp_path / "mine.safetensors")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    model, samples = fedmirage.load_model(path), made.hold_out()
    logits = model.compute_logits(samples.inputs)
    paths = save_pictures(tmp_path, made.client.view.dataset.test.images[:3], "abc")
    assert len(model.predict(paths)) == 3
    wanted = evaluate(made.trained, samples, 0)["scores"]["accuracy"]["value"]
    right = (logits.argmax(1) == samples.labels).double().mean()
    assert float(right) == pytest.approx(wanted, abs=1e-6)
    kept = client_folder(folder / "memory", token, 0) / FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_the_command_lists_runs_evaluates_and_writes(tmp_path: Path) -> None:
    token = run(tmp_path / "run", "fedper")
    runner, memory = CliRunner(env={"COLUMNS": "200"}), str(tmp_path / "run" / "memory")
    assert token in runner.invoke(app, ["personal", "--memory", memory]).output
    out = tmp_path / "mine.safetensors"
    typed = ["personal", token, "--memory", memory, "--partition", "1", "--json"]
    shown = runner.invoke(app, [*typed, "--out", str(out), "--resamples", "10"])
    found = json.loads(shown.stdout)
    assert found["what"] == "this node's test samples"
    assert found["scores"]["accuracy"]["low"] is not None
    assert fedmirage.load_model(out).facts.methods == "fedper"


def test_a_node_with_own_data_finds_them_again(tmp_path: Path) -> None:
    """The samples that it holds out are those on which it never trained."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (40, 6, 6)).astype(np.uint8)
    np.savez(tmp_path / "own.npz", images=images, labels=np.arange(40) % 2)
    settings = {**QUICK, "dataset": "npz(path='servers.npz', classes=2)", "methods": "fedper"}
    config = configure(settings)
    node = {"partition-id": 1, "data": str(tmp_path / "own.npz")}
    context = Context(1, 1, node, RecordDict(), {})
    client = build_client(config, context, tmp_path / "memory", deployed=True)
    token, whole = "0123456789abcdef", client.run
    sent = {SHARED: whole.shared.pick(whole.initial, whole.manifest)}
    arrays, layout = pack(sent)
    client.fit(arrays, {LAYOUT: layout, "round": 1, "token": token})
    made = assemble(tmp_path / "memory", token)
    samples = made.hold_out()
    assert samples.line == f"npz(path='{tmp_path}/own.npz', classes=2)"
    assert len(samples.labels) == 8, "a fifth of both classes"
    trained_on = {client.view.dataset.train.images[at].tobytes() for at in client.view.train}
    held = made.client.view.dataset.test.images
    assert not trained_on & {image.tobytes() for image in held}
    local = read_newest(client_folder(tmp_path / "memory", token, 1), LATEST)[1][LOCAL_MODEL]
    for one, other in zip(to_arrays(made.client.model), local, strict=True):
        assert np.array_equal(one, other)


def test_what_is_missing_or_belongs_elsewhere_is_refused(tmp_path: Path) -> None:
    token = run(tmp_path / "one", "fedper")
    run(tmp_path / "other", "lg-fedavg")
    whole = run_whole(tmp_path / "whole")
    memory = tmp_path / "one" / "memory"
    with pytest.raises(FedmirageError, match="holds clients 0, 1; write --partition"):
        assemble(memory, token)
    with pytest.raises(FedmirageError, match=f"it has runs {token}: check the id"):
        assemble(memory, "0" * 16)
    with pytest.raises(FedmirageError, match="shared the whole model, so that its model file is"):
        assemble(whole, next(whole.iterdir()).name, 0)
    with pytest.raises(FedmirageError, match=r"'lg-fedavg' trained; this run has methods='fedper'"):
        assemble(memory, token, 0, tmp_path / "other" / "model.safetensors")
    folder = client_folder(memory, token, 0)
    for path in folder.glob("round-*"):
        path.unlink()
    with pytest.raises(FedmirageError, match="holds no model that can be read; restore it"):
        assemble(memory, token, 0)
    (folder / FILE).write_text("{}")
    with pytest.raises(FedmirageError, match=r"run\.json is damaged; restore it from a copy"):
        assemble(memory, token, 0)


def run_whole(folder: Path) -> Path:
    """Run a method that shares the whole model and remembers something."""
    run_in_process(folder, **QUICK, dataset="digits(size=8)", methods="scaffold")
    return folder / "memory"


def test_nothing_is_imported_that_the_owner_does_not_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "home_lab.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.features = nn.Flatten()\n"
        "        self.classifier = nn.Linear(64, 10)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    token = run(tmp_path / "run", "lg-fedavg", model="home_lab:Net")
    del sys.modules["home_lab"]
    with pytest.raises(FedmirageError, match="does not import home_lab for a run; its owner lists"):
        assemble(tmp_path / "run" / "memory", token, 0)
    assert "home_lab" not in sys.modules
    made = assemble(tmp_path / "run" / "memory", token, 0, allow="home_lab")
    assert made.facts.model == "home_lab:Net"
