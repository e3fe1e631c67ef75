"""Maps of features: t-SNE of what the global model computes for test samples."""

from typing import Any

from fedmirage.common.errors import FedmirageError
from fedmirage.report.bands import brief
from fedmirage.report.runs import ReportedRun

SAMPLES = 300  # test samples of a map
SEED = 0  # chooses them, and starts t-SNE


def find_map(run: ReportedRun) -> dict[str, Any] | str:
    """Compute the map of a run; a sentence says why there is none."""
    # Imported here, because they load torch and scikit-learn.
    from fedmirage.report.tsne.clouds import cloud, embed
    from fedmirage.report.tsne.finished import FinishedRun

    try:
        if not run.settings.shares_all:
            return "it has no global model"
        opened = FinishedRun.open(run.folder)
        points = cloud(opened, ["server"], SAMPLES, SEED)
    except (FedmirageError, OSError) as error:
        return str(error)
    placed = embed(points, SEED)
    names, many = opened.data.classes, len(opened.data.classes)
    return {
        "x": [brief(float(one)) for one in placed[:, 0]],
        "y": [brief(float(one)) for one in placed[:, 1]],
        # A virtual class of a wider head has the colour of the class that it stands beside.
        "classes": [names[int(label) % many] for label in points.labels],
        "virtual": [bool(one) for one in points.virtual],
        "neighbours": f"{100 * _agreement(placed, points.labels % many):.1f}",
    }


def _agreement(placed: Any, labels: Any) -> float:
    """Return the share of points whose nearest neighbour on the map has the same class."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=1).fit(placed).kneighbors(return_distance=False)
    return float((labels[nearest[:, 0]] == labels).mean())
