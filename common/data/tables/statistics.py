"""Mean and deviation of a table's numbers over all clients, from counts, sums and sums of squares.

A client adds up its own training rows, and nothing but the sums leaves it. Where the schema bounds
a column, values are measured from `low` in units of `high - low` before they are added: so the
numbers lie between 0 and 1, which a secure sum can mask, and nothing is lost to large offsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.set import DataSet
from fedmirage.common.data.tables.schema import Column, parse_schema
from fedmirage.common.errors import WireError

if TYPE_CHECKING:
    from fedmirage.common.data.partitions.counts import Indices

COUNT, SUM, SQUARES = range(3)  # the rows of what a client sends
FLAT = 1e-12  # a variance below this share of the mean square is what rounding leaves of none
LARGEST = 1e300

Sums = npt.NDArray[np.float64]  # (3, columns)


@dataclass(frozen=True)
class Unscaled:
    """A column whose mean and deviation nobody knows before all clients were asked."""

    column: Column
    channel: int

    @property
    def bounded(self) -> bool:
        """Whether the schema says between which numbers its values lie."""
        return self.column.low is not None

    @property
    def unit(self) -> tuple[float, float]:
        """From where its values are measured, and in which unit."""
        if self.column.low is None or self.column.high is None:
            return 0.0, 1.0
        return self.column.low, self.column.high - self.column.low


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of every channel of the inputs."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def to_bytes(self) -> bytes:
        """Write it into a message."""
        return np.array([self.mean, self.std], "<f8").tobytes()

    @classmethod
    def from_bytes(cls, content: Any, channels: int) -> "Scale":
        """Read it from a message."""
        if not isinstance(content, bytes) or len(content) != 2 * 8 * channels:
            raise WireError(
                f"the server's normalisation is not one of {channels} channels; do both sides run"
                " the same version?"
            )
        mean, std = np.frombuffer(content, "<f8").reshape(2, channels)
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise WireError("the server's normalisation holds numbers that are none")
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def apply(self, dataset: DataSet) -> DataSet:
        """Return the set with this normalisation."""
        return replace(dataset, mean=self.mean, std=self.std)


def find_unscaled(dataset: DataSet) -> list[Unscaled]:
    """List the columns of a table whose mean and deviation its schema does not have."""
    if not dataset.schema:
        return []
    placed = parse_schema(dataset.schema).places()
    return [Unscaled(column, channel) for column, channel in placed if column.unscaled]


def add_up(dataset: DataSet, indices: "Indices") -> Sums:
    """Count the values of some training rows; add them up, and their squares."""
    sums = []
    for open_one in find_unscaled(dataset):
        start, unit = open_one.unit
        values = dataset.train.images[indices, open_one.channel].astype(np.float64)
        values = (values[~np.isnan(values)] - start) / unit
        sums.append([len(values), values.sum(), np.square(values).sum()])
    return np.array(sums, np.float64).reshape(-1, 3).T


def check_sums(sums: Sums, columns: Sequence[Unscaled], most: float, slack: float = 0.0) -> None:
    """Refuse sums that no rows have; `slack` is what rounding may do to them."""
    if sums.shape != (3, len(columns)) or not np.isfinite(sums).all():
        raise WireError("its sums of the table's columns are malformed")
    count, total, squares = sums
    possible = (count >= -slack) & (count <= most + slack) & (squares >= -slack)
    possible &= (np.abs(total) <= LARGEST) & (squares <= LARGEST)
    # Of all rows with this sum, those that are equal have the least squares.
    possible &= np.square(total) <= (count + slack) * (squares + slack) * (1 + 1e-9) + slack
    within = (total >= -slack) & (total <= count + slack) & (squares <= total + slack)
    bounded = np.array([one.bounded for one in columns], bool)
    if not (possible & (within | ~bounded)).all():
        raise WireError("its sums of the table's columns are such as no rows have")


def form_scale(dataset: DataSet, sums: Sums) -> Scale:
    """Compute the normalisation from the sums over all clients.

    A column of one value, or of none, is not divided by anything.
    """
    mean, std = list(dataset.mean), list(dataset.std)
    for open_one, (count, total, squares) in zip(find_unscaled(dataset), sums.T, strict=True):
        if count < 1:
            continue
        start, unit = open_one.unit
        centre, square = total / count, squares / count
        variance = square - centre**2
        mean[open_one.channel] = float(start + unit * centre)
        if variance > FLAT * square:
            std[open_one.channel] = float(unit * np.sqrt(variance))
    return Scale(tuple(mean), tuple(std))
