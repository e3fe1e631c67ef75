"""Draws t-SNE maps of the features that finished runs compute: VHL's figures 2 and 8 to 13.

python -m experiments.studies.tsne runs/fedavg runs/naive runs/vhl --out tsne.png
"""

import json
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from common.data import DataSet, load
from common.data.batches import normalise
from common.device import memory_format, place
from common.errors import FedmirageError
from common.memory import local_models
from common.methods.vhl import Vhl
from common.methods.vhl.sets import normalisation
from common.models import Model
from common.run import blueprint
from common.seeds import numpy_generator
from common.settings.config import RunConfig, configure, defaults
from common.wire.payload import Arrays
from common.wire.weights import from_arrays
from server.record.checkpoint import FILE, read

MARKERS = "o^sDv*PX"  # one per client


@dataclass
class FinishedRun:
    """A finished run, read from its folder."""

    folder: Path
    config: RunConfig
    data: DataSet
    model: Model
    # "server", and the last local model of every client whose memory is in the folder
    models: dict[str, Arrays]
    virtual: Arrays  # images and labels; empty without VHL

    @classmethod
    def open(cls, folder: Path) -> "FinishedRun":
        """Read a run's folder; features are computed later."""
        with (folder / "results.jsonl").open() as file:
            first = json.loads(next(file))
        config = configure({key: value for key, value in first.items() if key in defaults()})
        state = read(folder / FILE)
        data = load(config.dataset, config.data_dir or None)
        model = place(
            blueprint(config, data.shape, len(data.classes)), torch.device("cpu"), config
        ).eval()
        kept = local_models(folder / "memory" / state.token, state.round)
        models = {
            "server": state.shared,
            **{f"client {number}": arrays for number, (_, arrays) in enumerate(kept)},
        }
        virtual = state.strategy.get("vhl.virtual", [])
        return cls(folder, config, data, model, models, virtual if len(virtual) == 2 else [])

    @torch.inference_mode()
    def features(self, name: str, images: np.ndarray, virtual: bool) -> np.ndarray:
        """Return the penultimate features of uint8 images under one of the models."""
        from_arrays(self.model, self.models[name])
        mean, std = self.data.mean, self.data.std
        if virtual:
            params = next(method for method in self.config.method_list if isinstance(method, Vhl))
            mean, std = normalisation(params, mean, std)
        prepared: Tensor = normalise(
            torch.from_numpy(images.copy()), mean, std, memory_format(self.config)
        )
        return np.asarray(self.model.features(prepared).numpy())


@dataclass
class Cloud:
    """The points of one panel; row i of each array describes point i."""

    features: np.ndarray  # (points, width)
    labels: np.ndarray  # (points,)
    owner: np.ndarray  # (points,) position of the point's model in the panel's list of models
    virtual: np.ndarray  # (points,) bool


def cloud(run: FinishedRun, names: list[str], samples: int, seed: int) -> Cloud:
    """Compute the features of the same test samples, and of any virtual ones, for each model."""
    sources = [(run.data.test.images, run.data.test.labels, False)]
    if run.virtual:
        sources.append((run.virtual[0], run.virtual[1], True))
    parts: list[Cloud] = []
    for images, labels, virtual in sources:
        some = numpy_generator(seed, "tsne", int(virtual)).permutation(len(labels))[
            : samples // (2 if virtual else 1)
        ]
        for owner, name in enumerate(names):
            found = run.features(name, images[some], virtual)
            parts.append(
                Cloud(found, labels[some], np.full(len(some), owner), np.full(len(some), virtual))
            )
    return Cloud(
        *(
            np.concatenate([getattr(part, key) for part in parts])
            for key in ("features", "labels", "owner", "virtual")
        )
    )


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


def scatter(axis: Any, cloud: Cloud, names: list[str], seed: int) -> None:
    """Draw points: colour is the class, shape the model, a black ring marks virtual samples."""
    from sklearn.manifold import TSNE

    many = 10 if cloud.labels.max() < 10 else 20  # colours
    perplexity = min(30, (len(cloud.labels) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(
        cloud.features
    )
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


def main(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of finished runs, e.g. without VHL, naive, with VHL."),
    ],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("tsne.png"),
    clients: Annotated[int, typer.Option(help="Clients per map.", min=1, max=len(MARKERS))] = 3,
    samples: Annotated[
        int, typer.Option(help="Test samples per model; half as many virtual ones.", min=4)
    ] = 300,
    seed: Annotated[int, typer.Option(help="Chooses the samples and starts t-SNE.", min=0)] = 0,
) -> None:
    """Draw t-SNE maps of features of test samples, for global models and some clients' last models.

    Clients' models are read from RUN/memory, where a simulation leaves them. The virtual set is
    read from the run's checkpoint; its samples are ringed. Colours are classes (a virtual class has
    the colour of its partner), shapes are clients.
    """
    torch.set_num_threads(1)
    try:
        draw([FinishedRun.open(folder) for folder in runs], clients, samples, seed, out)
    except FedmirageError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"picture: {out}")


if __name__ == "__main__":
    typer.run(main)
