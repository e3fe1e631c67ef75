"""Predicts the classes of inputs in files, and shows or writes the answers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedmirage.common.data.files.inputs import list_inputs
from fedmirage.trained.model import BATCH, TrainedModel

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.table import Table


class Prediction(NamedTuple):
    """The probability of every class for one input."""

    input: str  # its file, and its row there
    probabilities: list[float]

    def rank(self, top: int) -> list[int]:
        """Return the numbers of the most probable classes; of equals, the first comes first."""
        order = sorted(range(len(self.probabilities)), key=lambda one: -self.probabilities[one])
        return order[:top]


def predict(
    model: TrainedModel, paths: Sequence[str | Path], encoder: str = ""
) -> Iterator[Prediction]:
    """Yield a prediction per input, in the order of the paths."""
    reader = model.facts.open_reader(encoder)
    listed = list_inputs(paths)
    for start in range(0, len(listed), BATCH):  # so that a folder need not fit into memory
        found = reader.read(listed[start : start + BATCH])
        probabilities = model.to_probabilities(model.compute_logits(found.values))
        yield from map(Prediction, found.names, probabilities.tolist())


def name_columns(top: int) -> list[str]:
    """Name the columns of a table of answers."""
    if top == 1:
        return ["input", "class", "probability"]
    pairs = (f"{what}_{place}" for place in range(1, top + 1) for what in ("class", "probability"))
    return ["input", *pairs]


def list_rows(model: TrainedModel, found: Sequence[Prediction], top: int) -> list[list[Any]]:
    """List the answers, one row per input: its name, then classes with their probabilities."""
    names = model.facts.classes
    return [
        [one.input, *(cell for at in one.rank(top) for cell in (names[at], one.probabilities[at]))]
        for one in found
    ]


def as_frame(model: TrainedModel, found: Sequence[Prediction], top: int) -> DataFrame:
    """Make a frame of the answers."""
    from pandas import DataFrame

    return DataFrame(list_rows(model, found, top), columns=name_columns(top))


def as_csv(model: TrainedModel, found: Sequence[Prediction], top: int) -> str:
    """Write the answers as CSV, with a head."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(name_columns(top))
    for row in list_rows(model, found, top):
        writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])
    return text.getvalue()


def as_table(model: TrainedModel, found: Sequence[Prediction], top: int) -> Table:
    """Show the answers in a terminal."""
    from fedmirage.show.words import make_table

    columns = [name.replace("_", " ") for name in name_columns(top)]
    table = make_table(columns, [name for name in columns if name.startswith("probability")])
    for row in list_rows(model, found, top):
        table.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else cell for cell in row))
    return table
