"""Scores of a model on what the sites hold out, and how they travel.

A site reports how many samples it holds out, and the scores of the model on them; one without any
reports 0 samples and no score. Of all sites there are two means: `by_examples`, in which a site
counts as often as it holds out samples, and `by_sites`, in which every site counts once. Under
secure aggregation a site sends products instead, of which the sums give both means.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedmirage.common.errors import FedmirageError

PREFIX = "held_out."
EXAMPLES = f"{PREFIX}examples"  # how many samples a site holds out
SITES = f"{PREFIX}sites"  # in a sum: 1 for a site that holds out any
BY_EXAMPLES, BY_SITES = "by_examples", "by_sites"
LARGEST = 2.0**16  # what stands for a loss that is larger, or not finite


def names_of(scores: Iterable[str]) -> list[str]:
    """Return the names under which a site reports its scores."""
    return [EXAMPLES, *(f"{PREFIX}{name}" for name in scores)]


def report(examples: int, scores: Mapping[str, float]) -> dict[str, int | float]:
    """Make what a site reports; a model that is spoilt has a very large loss, not an infinite one.

    An infinite number would make a mean worthless, and a secure sum cannot carry it.
    """
    kept = {
        f"{PREFIX}{name}": value if abs(value) <= LARGEST else LARGEST
        for name, value in scores.items()
    }
    return {EXAMPLES: examples, **kept}


def summed_names(names: Sequence[str]) -> list[str]:
    """Return the names of all metrics as they are added up."""
    scores = [name.removeprefix(PREFIX) for name in names if is_score(name)]
    others = [name for name in names if not name.startswith(PREFIX)]
    if EXAMPLES not in names:
        return others
    pairs = [f"{PREFIX}{kind}.{name}" for kind in (BY_EXAMPLES, BY_SITES) for name in scores]
    return [*others, EXAMPLES, SITES, *pairs]


def to_sums(metrics: Mapping[str, float], most: int) -> dict[str, float]:
    """Turn a site's report into products that can be added up; `most` bounds its samples."""
    found = {name: value for name, value in metrics.items() if not name.startswith(PREFIX)}
    if EXAMPLES not in metrics:
        return found
    if (examples := metrics[EXAMPLES]) > most:
        raise FedmirageError(
            f"it holds out more samples than secagg's max_examples={most}; raise max_examples"
        )
    share = examples / most
    found |= {EXAMPLES: share, SITES: float(examples > 0)}
    for name, value in metrics.items():
        if is_score(name):
            score = name.removeprefix(PREFIX)
            found[f"{PREFIX}{BY_EXAMPLES}.{score}"] = share * value
            found[f"{PREFIX}{BY_SITES}.{score}"] = value
    return found


def is_score(name: str) -> bool:
    """Whether a metric is a score of a site."""
    return name.startswith(PREFIX) and name != EXAMPLES


def means_of_sums(sums: Mapping[str, Any], clients: int, most: int) -> dict[str, Any]:
    """Return both means from what a secure sum holds: the mean of every product over all clients.

    `most` is what the clients divided their numbers of samples by.
    """
    share, site = float(sums[EXAMPLES]), float(sums[SITES])
    totals = {BY_EXAMPLES: share, BY_SITES: site}
    found: dict[str, Any] = {
        kind: {
            name.removeprefix(start): float(value) / total
            for name, value in sums.items()
            if name.startswith(start := f"{PREFIX}{kind}.") and round(site * clients)
        }
        for kind, total in totals.items()
    }
    sites = round(site * clients)
    return {**found, "holding": sites, "examples": round(share * clients * most)} | {
        "without": clients - sites
    }


def means_of_reports(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return both means from the reports of all sites, and who holds out nothing."""
    having = [one for one in reports if one[EXAMPLES]]
    names = sorted({name for one in having for name in one if is_score(name)})
    found: dict[str, Any] = {BY_EXAMPLES: {}, BY_SITES: {}}
    total = sum(one[EXAMPLES] for one in having)
    for name in names:
        score = name.removeprefix(PREFIX)
        found[BY_EXAMPLES][score] = math.fsum(one[EXAMPLES] * one[name] for one in having) / total
        found[BY_SITES][score] = math.fsum(one[name] for one in having) / len(having)
    empty = [one["partition"] for one in reports if not one[EXAMPLES]]
    counts = {"holding": len(having), "examples": total, "without": len(empty)}
    return {**found, **counts, "without_partitions": empty}
