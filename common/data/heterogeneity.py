"""How different the clients of a partition are: the clients-by-classes table, and metrics of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.set import Split
from fedmirage.common.data.view import count_classes

Table = npt.NDArray[np.int64]  # (clients, classes)
# (clients, classes) or (classes,): label distributions; or (clients,): one metric per client
Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClientRange:
    """Minimum, mean and maximum of a metric over the clients; each client counts once."""

    minimum: float
    mean: float
    maximum: float


@dataclass(frozen=True)
class Heterogeneity:
    """The metrics of one partition, as papers report them.

    Distances are measured from a client's label distribution to the one of all clients together.
    """

    clients: int
    samples: int  # of all clients together
    sizes: ClientRange  # samples per client
    size_deviation: float  # standard deviation of the sizes
    size_gini: float  # 0: all equally large; towards 1: one client has everything
    classes_held: ClientRange  # classes of which a client has at least one sample
    # exp(entropy): 1 for a single class, the number of classes if they are equally frequent
    effective_classes: ClientRange
    kullback_leibler: ClientRange  # in nats, client relative to all
    jensen_shannon: ClientRange  # in nats, at most log 2
    total_variation: ClientRange  # at most 1
    hellinger: ClientRange  # at most 1
    # sum of |differences|, as Zhao et al. (2018) define it: twice the total variation, at most 2
    earth_mover: ClientRange


def class_table(split: Split, parts: Sequence[Indices], classes: int) -> Table:
    """Count the samples of each class per client (in multi-label sets, its occurrences)."""
    return np.stack([count_classes(split.labels[part], classes) for part in parts])


def heterogeneity(table: Table, sizes: Sequence[int] | None = None) -> Heterogeneity:
    """Compute all metrics of a clients-by-classes table.

    `sizes` are needed only for multi-label sets, where labels and samples differ in number. A
    client without any label has no label distribution and is left out of the distances.
    """
    counted = table.sum(axis=1) if sizes is None else np.asarray(sizes)
    labelled = table[table.sum(axis=1) > 0]
    rows, pooled = distributions(labelled), distributions(labelled.sum(axis=0))
    variation = total_variation(rows, pooled)
    return Heterogeneity(
        clients=len(table),
        samples=int(counted.sum()),
        sizes=_spread(counted),
        size_deviation=float(counted.std()),
        size_gini=gini(counted),
        classes_held=_spread((table > 0).sum(axis=1)),
        effective_classes=_spread(np.exp(entropy(rows))),
        kullback_leibler=_spread(kullback_leibler(rows, pooled)),
        jensen_shannon=_spread(jensen_shannon(rows, pooled)),
        total_variation=_spread(variation),
        hellinger=_spread(hellinger(rows, pooled)),
        earth_mover=_spread(2 * variation),
    )


def distributions(counts: Table) -> Rows:
    """Divide counts by their sum along the last axis."""
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True), dtype=np.float64)


def entropy(rows: Rows) -> Rows:
    """Return the entropy in nats; 0 log 0 is 0."""
    return np.asarray(-(rows * np.log(np.where(rows > 0, rows, 1.0))).sum(axis=-1))


def kullback_leibler(rows: Rows, other: Rows) -> Rows:
    """Return KL(rows || other) in nats; `other` must be positive wherever `rows` is."""
    ratio = np.where(rows > 0, rows, 1.0) / np.where(rows > 0, other, 1.0)
    return np.asarray((rows * np.log(ratio)).sum(axis=-1))


def jensen_shannon(rows: Rows, other: Rows) -> Rows:
    """Return the mean divergence of both from their average, in nats."""
    middle = (rows + other) / 2
    others = np.broadcast_to(other, rows.shape)
    return (kullback_leibler(rows, middle) + kullback_leibler(others, middle)) / 2


def total_variation(rows: Rows, other: Rows) -> Rows:
    """Return half the sum of the absolute differences."""
    return np.asarray(np.abs(rows - other).sum(axis=-1) / 2)


def hellinger(rows: Rows, other: Rows) -> Rows:
    """Return the Euclidean distance of the square roots, divided by sqrt(2)."""
    return np.asarray(np.sqrt(((np.sqrt(rows) - np.sqrt(other)) ** 2).sum(axis=-1) / 2))


def gini(sizes: npt.NDArray[np.int64]) -> float:
    """Return the mean absolute difference of two clients' sizes over twice the mean size."""
    ordered = np.sort(sizes)
    ranks = 2 * np.arange(1, len(sizes) + 1) - len(sizes) - 1
    return float((ranks * ordered).sum() / (len(sizes) * ordered.sum()))


def _spread(values: npt.NDArray[np.int64] | Rows) -> ClientRange:
    if len(values) == 0:
        return ClientRange(float("nan"), float("nan"), float("nan"))
    return ClientRange(float(values.min()), float(values.mean()), float(values.max()))
