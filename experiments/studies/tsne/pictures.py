"""Draws the maps of several runs into one picture."""

from pathlib import Path
from textwrap import fill
from typing import Any

from fedmirage.report.tsne.clouds import (
    MARKERS,
    Cloud,
    cloud,
    domain_cloud,
    domain_names,
    embed,
)
from fedmirage.report.tsne.finished import FinishedRun


def draw(runs: list[FinishedRun], clients: int, samples: int, seed: int, path: Path) -> None:
    """Draw one row per run: the server's model on the left, clients' models in one map at right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(runs), 2, figsize=(12, 5.6 * len(runs)), squeeze=False, layout="constrained"
    )
    for row, run in zip(axes, runs, strict=True):
        own = [name for name in run.models if name != "server"]
        chosen = own[:: max(1, len(own) // clients)][:clients]
        for axis, names, title in zip(
            row, (["server"], chosen), ("global model", ", ".join(chosen)), strict=True
        ):
            axis.set(xticks=[], yticks=[])
            axis.set_title(
                fill(f"{run.config.methods}: {title or 'no client memories here'}", 70), fontsize=9
            )
            if names:
                scatter(axis, cloud(run, names, samples, seed), names, seed)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_domains(runs: list[FinishedRun], samples: int, seed: int, path: Path) -> None:
    """Draw one map per run: the global model's features of all domains."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(runs), figsize=(6 * len(runs), 5.6), squeeze=False, layout="constrained"
    )
    for axis, run in zip(axes[0], runs, strict=True):
        axis.set(xticks=[], yticks=[])
        axis.set_title(fill(run.config.methods, 70), fontsize=9)
        scatter(axis, domain_cloud(run, samples, seed), domain_names(run), seed)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def scatter(axis: Any, cloud: Cloud, names: list[str], seed: int) -> None:
    """Draw points: colour is the class, shape the model, a black ring marks virtual samples."""
    many = 10 if cloud.labels.max() < 10 else 20  # colours
    points = embed(cloud, seed)
    for virtual in (False, True):
        for owner, name in enumerate(names):
            kept = (cloud.owner == owner) & (cloud.virtual == virtual)
            if kept.any():
                style = (
                    {"edgecolors": "black", "linewidths": 0.8, "s": 34}
                    if virtual
                    else {"linewidths": 0, "s": 16}
                )
                label = f"{name}, {'virtual' if virtual else 'real'}"
                colours = {
                    "c": cloud.labels[kept] % many,
                    "cmap": f"tab{many}",
                    "vmin": 0,
                    "vmax": many - 1,
                }
                axis.scatter(
                    *points[kept].T, marker=MARKERS[owner], label=label, **colours, **style
                )
    axis.legend(fontsize=8, loc="best", markerscale=1.2)
