"""Pictures of a data set."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

from fedmirage.cli import app
from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.errors import FedmirageError
from fedmirage.show import samples


def test_a_picture_of_a_set_has_a_row_per_domain_and_a_column_per_class(tmp_path: Path) -> None:
    """Whatever a domain lacks is white; one row where there are no domains."""
    numbers = np.array([0, 1, 0, 0, 1, 1])
    images = np.arange(6, dtype=np.uint8)[:, None, None, None].repeat(4, 2).repeat(4, 3)
    split = Split(images, numbers, {"domain": np.array([0, 0, 1, 1, 2, 2])})
    facts: dict[str, Any] = {"classes": ("a", "b"), "task": "single-label", "fingerprint": ""}
    facts |= {"mean": (0.5,), "std": (0.5,)}
    made = DataSet("x", split, split, domains=("p", "q", "r"), **facts)
    found = samples.find_samples(made, 2)
    assert list(found) == ["p", "q", "r"]
    assert [[_level(one) for one in row] for row in found.values()] == [
        [0, 1],
        [2, None],
        [None, 4],
    ]
    plain = dataclasses.replace(made, domains=(), train=Split(images, numbers))
    (row,) = samples.find_samples(plain, 2).values()
    assert [_level(one) for one in row] == [0, 1]
    path = samples.draw_samples(made, tmp_path / "new" / "sheet.png")
    assert Image.open(path).width > 2 * 64
    with pytest.raises(FedmirageError, match="several labels"):
        samples.draw_samples(dataclasses.replace(made, task="multi-label"), path)


def _level(image: Tensor | None) -> float | None:
    return None if image is None else round(255 * float(image.max()))


def test_the_command_draws_a_set_only_if_it_is_named(tmp_path: Path) -> None:
    runner = CliRunner()
    file = tmp_path / "digits.png"
    done = runner.invoke(app, ["datasets", "digits(limit=100)", "--picture", str(file)])
    assert done.exit_code == 0
    assert file.exists()
    refused = runner.invoke(app, ["datasets", "--picture", str(file)])
    assert "--picture shows one set" in str(refused.exception)
