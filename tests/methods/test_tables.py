"""The five and their placebos on a table with numbers, categories and missing values."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedmirage.client.methods.fedcog import canvas
from fedmirage.client.methods.fedcog.canvas import relax
from fedmirage.common.methods import METHODS
from fedmirage.common.secagg.settings import why_not
from fedmirage.common.settings.language import write
from fedmirage.runtimes.quick import BASE, finite, line
from fedmirage.testing import runs
from fedmirage.testing.inprocess import run_in_process
from tests.support.tables import line_of, write_schema, write_table

FIVE = ("fedcog", "vhl", "dynafed", "fedlgd", "fedmd-cg")


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, Any]:
    """Settings of a run on the table: every client has rows of one class."""
    dataset = line_of(write_table(tmp_path), write_schema(tmp_path))
    return {**BASE, "dataset": dataset, "partition": "classes(per_client=1)"}


def train(folder: Path, **settings: Any) -> list[Any]:
    """Run two rounds, and return all weights that they lead to."""
    run_in_process(folder, **{**settings, "keep_models": "all"})
    return runs.arrays(folder)


def placebo(name: str) -> str:
    """Write the placebo of a method, with the parameters that make it act in two rounds."""
    method = METHODS[name]
    return write(method(**{**method.quick, **method.placebo}))


@pytest.mark.parametrize("name", FIVE)
def test_the_five_and_their_placebos_run_and_do_something(
    name: str, rows: dict[str, Any], tmp_path: Path
) -> None:
    found = train(tmp_path / "method", **{**rows, "methods": line(name)})
    other = train(tmp_path / "placebo", **{**rows, "methods": placebo(name)})
    assert finite(found)
    assert finite(other)
    assert runs.differ(found, other)
    assert runs.differ(found, train(tmp_path / "fedavg", **rows))


@pytest.mark.parametrize("name", [name for name in FIVE if not why_not(METHODS[name]())])
def test_those_that_can_run_under_secure_aggregation(
    name: str, rows: dict[str, Any], tmp_path: Path
) -> None:
    hidden = {**rows, "methods": line(name), "secagg": "on"}
    run_in_process(tmp_path / "run", **hidden)
    assert finite(runs.weights(tmp_path / "run"))
    assert runs.lines(tmp_path / "run", "normalisation")[0]["clients"] == [0, 1, 2, 3]
    for told in runs.lines(tmp_path / "run"):
        assert told["refused"] == []


def test_generated_categories_are_one_hot_relaxations(
    rows: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Tensor] = []

    def spy(inputs: Tensor, categories: Any) -> Tensor:
        made.append(relax(inputs, categories))
        return made[-1]

    monkeypatch.setattr(canvas, "relax", spy)
    train(tmp_path / "run", **{**rows, "methods": "fedcog(start=1, samples=8, steps=5)"})
    for first, end in ((1, 3), (3, 7)):
        for generated in made:
            assert torch.allclose(generated[:, first:end].sum(1), torch.ones(len(generated)))
            assert bool((generated[:, first:end] > 0).all())
    for told in runs.lines(tmp_path / "run"):
        assert told["train"]["distillation"] > 0
