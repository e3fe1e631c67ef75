"""Methods on inputs that are no pictures: rows of a table, signals, embeddings, categories."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from fedmirage.client.methods.fedcog.canvas import Pixels
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.common.settings.language import write
from fedmirage.runtimes.quick import finite, line
from fedmirage.testing import runs
from fedmirage.testing.inprocess import run_in_process
from tests.support.inputs import INPUTS, ROWS

FIVE = ("fedcog", "vhl", "dynafed", "fedlgd", "fedmd-cg")


def placebo(name: str) -> str:
    """Write the placebo of a method, with the parameters that make it act in two rounds."""
    method = METHODS[name]
    return write(method(**{**method.quick, **method.placebo}))


def train(folder: Path, **settings: Any) -> list[Any]:
    """Run two rounds, and return all weights that they lead to."""
    run_in_process(folder, **{**settings, "keep_models": "all"})
    return runs.arrays(folder)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_on_rows_and_does_something(name: str, tmp_path: Path) -> None:
    found = train(tmp_path / "method", **{**ROWS, "methods": line(name)})
    assert finite(found)
    assert runs.differ(found, train(tmp_path / "fedavg", **ROWS)) == (name != "fedavg")


@pytest.mark.parametrize("inputs", ["signals", "embeddings"])
@pytest.mark.parametrize("name", FIVE)
def test_the_five_run_and_do_something(name: str, inputs: str, tmp_path: Path) -> None:
    found = train(tmp_path / "method", **{**INPUTS[inputs], "methods": line(name)})
    assert finite(found)
    assert runs.differ(found, train(tmp_path / "fedavg", **INPUTS[inputs]))


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("name", FIVE)
def test_their_placebos_run_and_differ_from_them(name: str, inputs: str, tmp_path: Path) -> None:
    settings = INPUTS[inputs]
    found = train(tmp_path / "placebo", **{**settings, "methods": placebo(name)})
    assert finite(found)
    assert runs.differ(found, train(tmp_path / "real", **{**settings, "methods": line(name)}))


def test_generated_rows_change_the_clients_loss(tmp_path: Path) -> None:
    train(tmp_path, **{**ROWS, "methods": "fedcog(start=1, samples=8, steps=5)"})
    for told in runs.lines(tmp_path):
        assert told["train"]["distillation"] > 0
        assert told["methods"]["fedcog.samples"] == 8


def test_a_category_is_generated_as_a_relaxation_of_one_hot() -> None:
    noise = torch.randn(4, 7)
    canvas = Pixels(noise.clone(), ((1, 4), (5, 7)))
    rows = canvas()
    for first, end in canvas.categories:
        assert torch.allclose(rows[:, first:end].sum(1), torch.ones(4))
        assert bool((rows[:, first:end] > 0).all())
    assert torch.equal(rows[:, [0, 4]], noise[:, [0, 4]])
    before = copy.deepcopy(canvas.images.detach())
    rows[:, 2].sum().backward()
    torch.optim.SGD(canvas.parameters(), 1.0).step()
    assert bool((canvas.images[:, 2] < before[:, 2]).all())  # a category can be learned


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"augment": "crop-flip"}, "augment is for pictures, and dataset='wine' holds none"),
        ({"save_images": True}, "save-images is for pictures"),
        ({"methods": "vhl(generator='stylegan')"}, r"vhl\(generator='stylegan'\) is for pictures"),
        ({"methods": "dynafed(augment=True)"}, r"dynafed\(augment=True\) is for pictures"),
        ({"methods": "fedlgd(augment='flip')"}, "write augment=''"),
        ({"methods": "fedcog(source='generator')"}, "draws pictures"),
    ],
)
def test_what_only_pictures_have_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure({"dataset": "wine", "model": "mlp", **settings})


@pytest.mark.parametrize("model", ["simple-cnn", "convnet", "resnet10", "cnn1d"])
def test_networks_for_other_inputs_are_refused(model: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="choose model='mlp'"):
        run_in_process(tmp_path, **{**ROWS, "model": model})


@pytest.mark.parametrize("inputs", INPUTS)
def test_inputs_under_secure_aggregation(inputs: str, tmp_path: Path) -> None:
    settings = {**INPUTS[inputs], "methods": line("fedcog")}
    plain = train(tmp_path / "plain", **settings)
    secure = train(tmp_path / "secure", **{**settings, "secagg": "on"})
    assert all(abs(a - b).max() < 1e-3 for a, b in zip(plain, secure, strict=True))
