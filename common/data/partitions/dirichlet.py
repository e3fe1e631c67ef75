"""The three partitions that draw label skew from a Dirichlet distribution, each as in its paper."""

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions.counts import (
    Counts,
    Indices,
    apportion,
    divide_evenly,
    split_by_counts,
)
from fedmirage.common.data.partitions.groups import Division
from fedmirage.common.data.partitions.params import Dirichlet, DirichletClient, DirichletEqual
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.language import write

ATTEMPTS = 1000  # draws before a partition is refused; the loops of the papers have no limit
PASSES = 1000  # most passes of DynaFed's equalisation
# replaces shares that underflowed to zero, so that no client's shares are all zero
SMALLEST = 1e-290


def dirichlet(params: Dirichlet, what: Division) -> list[Indices]:
    """Split like FedCOG's NIID-1 and VHL: class by class, redrawn until every client has enough.

    flwr-datasets' DirichletPartitioner(self_balancing=True) cuts the same shares in the same way,
    but is not used: there a client with exactly N/K samples is not full yet, a full client can get
    the sample that rounding left over, a class for which the cap leaves no share goes to the last
    client as a whole, and eleven draws are the limit (100 clients with alpha 0.1 need four on
    average).
    """
    for _ in range(ATTEMPTS):
        counts = _draw(params, what.sizes, what.clients, what.generator)
        if counts is not None and counts.sum(axis=1).min() >= params.min_size:
            return split_by_counts(what.labels, counts, what.generator)
    raise ConfigurationError(
        f"partition: {write(params)}: {ATTEMPTS} draws with alpha={params.alpha:g} never gave"
        f" all of clients={what.clients} at least min_size={params.min_size} of {len(what.train)}"
        " samples; set a larger alpha, a smaller min_size or fewer clients"
    )


def _draw(
    params: Dirichlet, sizes: Counts, clients: int, generator: np.random.Generator
) -> Counts | None:
    """Draw a table of counts once; None if the cap left no share to any client."""
    counts = np.zeros((clients, len(sizes)), dtype=np.int64)
    given = np.zeros(clients, dtype=np.int64)  # samples that each client has so far
    for label in np.flatnonzero(sizes):
        shares = generator.dirichlet(np.full(clients, params.alpha))
        if params.capped:
            shares[given >= sizes.sum() / clients] = 0.0
        if not shares.sum() > 0:
            return None
        counts[:, label] = apportion(sizes[label], shares)
        given += counts[:, label]
    return counts


def dirichlet_equal(params: DirichletEqual, what: Division) -> list[Indices]:
    """Split like DynaFed: Dirichlet shares of every class, scaled to equally large clients.

    Classes are cut in the order of the data set. Sizes are equal up to rounding (746 to 758 for 80
    clients and 60,000 samples) if the scaling converges.
    """
    sizes, counts = what.sizes, what.no_counts()
    alphas = np.full(what.clients, params.alpha)
    shares = what.generator.dirichlet(alphas, size=what.classes).T
    amounts = equalise(shares * sizes, sizes)  # (clients, classes)
    for label in np.flatnonzero(sizes):
        counts[:, label] = apportion(sizes[label], amounts[:, label])
    return split_by_counts(what.labels, counts)


def equalise(amounts: npt.NDArray[np.float64], sizes: Counts) -> npt.NDArray[np.float64]:
    """Scale every client to N/K samples and every class back to its size (Sinkhorn), repeatedly.

    It ends when neither changes any more, or after PASSES.

    Differs from the paper's code: clients are scaled by their samples, not by the sum of their
    shares, because only then do classes of unequal size also give equally large clients; with equal
    classes both are the same.
    """
    present = sizes > 0
    scaled: npt.NDArray[np.float64] = np.maximum(amounts[:, present], SMALLEST)
    target = sizes.sum() / len(amounts)
    for _ in range(PASSES):
        factors = target / scaled.sum(axis=1, keepdims=True)
        scaled = scaled * factors
        scaled = scaled * (sizes[present] / scaled.sum(axis=0, keepdims=True))
        if np.abs(factors - 1).max() < 1e-12:
            break
    result = np.zeros_like(amounts)
    result[:, present] = scaled
    return result


def dirichlet_client(params: DirichletClient, what: Division) -> list[Indices]:
    """Split like FedMD-CG: one client after the other draws its shares, then N/K samples by them.

    Samples are drawn without replacement, each weighted by the share of its class. An exhausted
    class drops out, and late clients get what is left. A draw without replacement by weight w is
    the order of E/w with E exponential, so one partial sort replaces a loop; samples whose share
    underflowed to zero come last, in random order.
    """
    labels, generator, parts = what.labels, what.generator, []
    left = np.arange(len(labels), dtype=np.int64)
    for size in divide_evenly(len(labels), what.clients):
        shares = np.maximum(generator.dirichlet(np.full(what.classes, params.alpha)), SMALLEST)
        ranks = np.log(generator.standard_exponential(len(left))) - np.log(shares)[labels[left]]
        chosen = np.zeros(len(left), dtype=bool)
        chosen[np.argpartition(ranks, size - 1)[:size]] = True
        parts.append(left[chosen])
        left = left[~chosen]
    return parts
