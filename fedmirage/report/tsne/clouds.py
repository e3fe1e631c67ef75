"""The points of a map: features of test samples, and of virtual ones."""

from dataclasses import dataclass

import numpy as np

from fedmirage.common.errors import FedmirageError
from fedmirage.common.seeds import numpy_generator
from fedmirage.report.tsne.finished import FinishedRun

MARKERS = "o^sDv*PX"  # one per client, or per domain


@dataclass
class Cloud:
    """The points of one panel; row i of each array describes point i."""

    features: np.ndarray  # (points, width)
    labels: np.ndarray  # (points,)
    owner: np.ndarray  # (points,) position of the point's model in the panel's list of models
    virtual: np.ndarray  # (points,) bool


def cloud(run: FinishedRun, names: list[str], samples: int, seed: int) -> Cloud:
    """Compute the features of the same test samples, and of any virtual ones, for each model."""
    some = numpy_generator(seed, "tsne", 0).permutation(len(run.data.test))[:samples]
    images, labels = run.test_images(some), run.data.test.labels[some]
    parts = [
        points(run.features(name, images), labels, owner, virtual=False)
        for owner, name in enumerate(names)
    ]
    if run.virtual is not None:  # half as many as real ones
        images, labels = run.virtual
        some = numpy_generator(seed, "tsne", 1).permutation(len(labels))[: samples // 2]
        parts += [
            points(run.features(name, images[some]), labels[some], owner, virtual=True)
            for owner, name in enumerate(names)
        ]
    return join(parts)


def domain_cloud(run: FinishedRun, samples: int, seed: int) -> Cloud:
    """Compute the global model's features of test samples of every domain."""
    column = run.data.test.columns.get("domain")
    if column is None:
        raise FedmirageError(
            f"{run.folder} was trained on {run.data.name}, which has no domains; leave --domains"
            " out"
        )
    parts, numbers = [], range(len(domain_names(run)))
    for domain in numbers:
        chosen = numpy_generator(seed, "tsne", domain).permutation(np.flatnonzero(column == domain))
        some = chosen[: samples // len(numbers)]
        found = run.features("server", run.test_images(some))
        parts.append(points(found, run.data.test.labels[some], domain, virtual=False))
    return join(parts)


def domain_names(run: FinishedRun) -> list[str]:
    """The domains that a map shows: as many as there are shapes."""
    return list(run.data.domains[: len(MARKERS)])


def embed(cloud: Cloud, seed: int) -> np.ndarray:
    """Place the points of a cloud on a map, (points, 2), with t-SNE."""
    from sklearn.manifold import TSNE

    perplexity = min(30, (len(cloud.labels) - 1) / 3)
    placed = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(
        cloud.features
    )
    return np.asarray(placed)


def points(features: np.ndarray, labels: np.ndarray, owner: int, virtual: bool) -> Cloud:
    """Make points that have one owner."""
    size = len(labels)
    return Cloud(features, labels, np.full(size, owner), np.full(size, virtual))


def join(parts: list[Cloud]) -> Cloud:
    """Put the points of several clouds into one."""
    return Cloud(
        *(
            np.concatenate([getattr(part, key) for part in parts])
            for key in ("features", "labels", "owner", "virtual")
        )
    )
