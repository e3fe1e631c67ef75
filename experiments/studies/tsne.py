"""Draws t-SNE maps of the features that finished runs compute.

VHL's figures 2 and 8 to 13, and with --domains FedLGD's figure 4:

    python -m experiments.studies.tsne runs/fedavg runs/naive runs/vhl --out tsne.png
    python -m experiments.studies.tsne runs/fedavg runs/without runs/fedlgd --domains --out tsne.png
"""

from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

from matplotlib.figure import Figure

from experiments.studies.command import Runs, run_study
from fedmirage.report.tsne.finished import (
    MARKERS,
    Cloud,
    FinishedRun,
    cloud,
    domain_cloud,
    domain_names,
    embed,
)


def main(
    runs: Runs,
    out: Path = Path("tsne.png"),
    clients: Annotated[int, {"min": 1, "max": len(MARKERS)}] = 3,
    samples: Annotated[int, {"min": 4}] = 300,
    seed: Annotated[int, {"min": 0}] = 0,
    domains: bool = False,
) -> None:
    """Draw t-SNE maps of features of test samples, for global models and some clients' last models.

    Clients' models are read from RUN/memory, where a simulation leaves them. The virtual set is
    read from the run's checkpoint; its samples are ringed. Colours are classes (a virtual class has
    the colour of its partner), shapes are clients. With --domains, there is one map per run: the
    global model's features of test samples, and shapes are the domains of the data.

    Options:
        out: The picture.
        clients: Clients per map.
        samples: Test samples per model; half as many virtual ones.
        seed: Chooses the samples and starts t-SNE.
        domains: One map per run, in which shapes are domains.
    """
    opened = [FinishedRun.open(folder) for folder in runs]
    if domains:
        draw_domains(opened, samples, seed, out)
    else:
        draw(opened, clients, samples, seed, out)
    print(f"picture: {out}")


def draw(runs: list[FinishedRun], clients: int, samples: int, seed: int, path: Path) -> None:
    """Draw one row per run: the server's model on the left, clients' models in one map at right."""
    figure = Figure(figsize=(12, 5.6 * len(runs)), layout="constrained")
    for row, run in zip(figure.subplots(len(runs), 2, squeeze=False), runs, strict=True):
        own = [name for name in run.models if name != "server"]
        chosen = own[:: max(1, len(own) // clients)][:clients]
        said = ("global model", ", ".join(chosen) or "no client memories here")
        for axis, names, title in zip(row, (["server"], chosen), said, strict=True):
            begin(axis, f"{run.config.methods}: {title}")
            if names:
                scatter(axis, cloud(run, names, samples, seed), names, seed)
    figure.savefig(path, dpi=110)


def draw_domains(runs: list[FinishedRun], samples: int, seed: int, path: Path) -> None:
    """Draw one map per run: the global model's features of all domains."""
    figure = Figure(figsize=(6 * len(runs), 5.6), layout="constrained")
    for axis, run in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        begin(axis, run.config.methods)
        scatter(axis, domain_cloud(run, samples, seed), domain_names(run), seed)
    figure.savefig(path, dpi=110)


def begin(axis: Any, title: str) -> None:
    """Prepare a map, whose distances have no unit."""
    axis.set(xticks=[], yticks=[])
    axis.set_title(fill(title, 70), fontsize=9)


def scatter(axis: Any, cloud: Cloud, names: list[str], seed: int) -> None:
    """Draw points: colour is the class, shape the model, a black ring marks virtual samples."""
    many = 10 if cloud.labels.max() < 10 else 20  # colours
    points = embed(cloud, seed)
    for virtual in (False, True):
        for owner, name in enumerate(names):
            kept = (cloud.owner == owner) & (cloud.virtual == virtual)
            if kept.any():
                ring = {"edgecolors": "black", "linewidths": 0.8, "s": 34}
                look = {"marker": MARKERS[owner], "cmap": f"tab{many}", "vmin": 0, "vmax": many - 1}
                look |= ring if virtual else {"linewidths": 0, "s": 16}
                look["label"] = f"{name}, {'virtual' if virtual else 'real'}"
                axis.scatter(*points[kept].T, c=cloud.labels[kept] % many, **look)
    axis.legend(fontsize=8, loc="best", markerscale=1.2)


if __name__ == "__main__":
    run_study(main)
