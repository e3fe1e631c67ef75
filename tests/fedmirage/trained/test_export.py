"""Exported models give the answers of the model in other programs, or nothing is written."""

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.models.files import ModelFacts
from fedmirage.trained.export import FACTS, INPUT, OUTPUT, export
from fedmirage.trained.model import TrainedModel
from tests.support.trained import save_pictures

onnxruntime = pytest.importorskip("onnxruntime", reason="needs fedmirage[export]")
ROOT = str(Path(__file__).parents[3])


def make_model(line: str, shape: tuple[int, ...], extra: int = 0, network: Any = None) -> Any:
    """A network of random weights and facts about it; inputs that are no pictures are floats."""
    pictures = len(shape) == 3
    facts = ModelFacts(
        model=line,
        outputs=4 + extra,
        parameters=0,
        classes=("a", "b", "c", "d"),
        task="single-label",
        shape=shape,
        mean=tuple(0.1 * (at + 1) for at in range(shape[0])),
        std=tuple(0.5 + 0.1 * at for at in range(shape[0])),
        methods="fedavg",
        round=1,
        version="0",
        pictures=pictures,
    )
    return TrainedModel((network or build(line, shape, 4, extra, 1)).eval(), facts)


def draw(model: TrainedModel, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(size)
    shape = (size, *model.facts.shape)
    if model.facts.pictures:
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    values = torch.randn(shape, generator=generator)
    values.view(-1)[::7] = torch.nan
    return values


def wanted(model: TrainedModel, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return model.network(model.facts.normalise(inputs))[:, :4]


SMALL = [
    ("mlp(hidden=16)", (13,), 0),
    ("cnn1d(width=8)", (3, 64), 0),
    ("convnet(width=8, depth=2)", (3, 12, 12), 6),  # as wide as VHL makes it
]
MORE = [
    ("simple-cnn", (1, 28, 28), 0),
    ("lenet-bn(hidden=16)", (1, 28, 28), 4),
    ("cnn3", (3, 32, 32), 0),
    ("vhl-cnn", (3, 32, 32), 4),
    ("resnet18", (3, 32, 32), 0),
]
each = pytest.mark.parametrize(
    ("line", "shape", "extra"),
    [*SMALL, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)


@each
def test_onnxruntime_gives_the_same_answers_for_every_batch(
    tmp_path: Path, line: str, shape: tuple[int, ...], extra: int
) -> None:
    model = make_model(line, shape, extra)
    path = export(model, "onnx", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path)
    for size in (1, 3, 9):
        inputs = draw(model, size)
        (found,) = session.run([OUTPUT], {INPUT: inputs.numpy()})
        assert found.shape == (size, 4)
        assert np.allclose(found, wanted(model, inputs).numpy(), atol=1e-4)
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["classes"]) == ["a", "b", "c", "d"]
    assert ("uint8" in told["inputs"]) == model.facts.pictures
    assert ROOT not in path.read_bytes().decode("latin1"), "it names a place on this machine"


@each
def test_torch_loads_what_torch_export_wrote(
    tmp_path: Path, line: str, shape: tuple[int, ...], extra: int
) -> None:
    model = make_model(line, shape, extra)
    path = export(model, "torch-export", tmp_path / "model.pt2")
    more = {FACTS: ""}
    program = torch.export.load(path, extra_files=more).module()
    for size in (1, 3):
        inputs = draw(model, size)
        assert torch.allclose(program(inputs), wanted(model, inputs), atol=1e-5)
    assert json.loads(more[FACTS])["classes"] == ["a", "b", "c", "d"]
    assert ROOT not in path.read_bytes().decode("latin1")


def test_the_command_exports_the_model_of_a_run(digits: Path, tmp_path: Path) -> None:
    """Bytes of pictures into onnxruntime give the classes that predict gives."""
    out = tmp_path / "model.onnx"
    typed = ["export", str(digits), "--to", "onnx", "--out", str(out)]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, typed)
    assert shown.output == f"onnx: {out}\n"
    test = load("digits(size=8)").test
    paths = save_pictures(tmp_path, test.images[:20], map(str, range(10, 30)))
    (found,) = onnxruntime.InferenceSession(out).run([OUTPUT], {INPUT: np.array(test.images[:20])})
    answers = fedmirage.load_model(digits).predict(paths)["class"]
    assert [str(one) for one in found.argmax(1)] == answers.tolist()


class Branching(nn.Module):
    """Depends on the values of the batch."""

    def forward(self, values: Tensor) -> Tensor:
        flat = values.flatten(1)
        return flat if flat.sum() > 0 else -flat


class Decomposing(nn.Module):
    """Uses an operator that ONNX does not have."""

    def forward(self, values: Tensor) -> Tensor:
        return torch.linalg.qr(values[:, 0]).Q.flatten(1)


class Drawing(nn.Module):
    """Draws at random, although nothing is trained."""

    def forward(self, values: Tensor) -> Tensor:
        return values.flatten(1) + torch.randn_like(values.flatten(1))


@pytest.mark.parametrize(
    ("features", "kind", "sentence"),
    [
        (Branching(), "onnx", "onnx cannot express this network .*nothing was written"),
        (Branching(), "torch-export", "torch-export cannot express this network"),
        (Decomposing(), "onnx", "onnx cannot express this network .*--to torch-export may"),
        (Drawing(), "torch-export", "gives other answers than the model for a batch of 1"),
    ],
)
def test_what_cannot_be_expressed_is_refused_and_changes_nothing(
    tmp_path: Path, features: nn.Module, kind: str, sentence: str
) -> None:
    network = Model(features, nn.Linear(36, 4), 36)
    model = make_model("own", (1, 6, 6), network=network)
    out = tmp_path / "model"
    out.write_text("before")
    with pytest.raises(FedmirageError, match=sentence):
        export(model, kind, out)
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_missing_or_mistyped_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model("mlp(hidden=4)", (3,))
    with pytest.raises(FedmirageError, match="to='tflite': write one of onnx, torch-export"):
        export(model, "tflite", tmp_path / "x")
    with pytest.raises(FedmirageError, match="is a folder; name a file"):
        export(model, "onnx", tmp_path)
    usual = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name=name)
        return usual(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FedmirageError, match=r"needs onnxruntime, .*'fedmirage\[export\]'"):
        export(model, "onnx", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
