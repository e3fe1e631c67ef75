"""Draws FedMD-CG's figures 2 and 5; the numbers come from study.py in this folder."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure


def draw_features(found: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Draw one panel per source of features, all in the plane of the first one's components."""
    from sklearn.decomposition import PCA

    (real, _), *_ = found.values()
    plane = PCA(n_components=2).fit(real)
    figure = Figure(figsize=(3.4 * len(found), 3.6), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False, sharex=True, sharey=True)[0]
    for panel, (name, (values, labels)) in zip(panels, found.items(), strict=True):
        points = plane.transform(values)
        panel.scatter(*points.T, c=labels % 10, cmap="tab10", vmin=0, vmax=9, s=6, linewidths=0)
        panel.set(title=name, xticks=[], yticks=[])
    figure.savefig(path, dpi=110)


def draw_losses(curves: Mapping[str, Mapping[int, float]], path: Path) -> None:
    """Draw the loss on generated features by round, one line per run."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    for name, losses in curves.items():
        panel.plot(list(losses), list(losses.values()), label=name)
    panel.set(xlabel="round", ylabel="local classifier's loss on generated features", yscale="log")
    panel.legend()
    figure.savefig(path, dpi=110)
