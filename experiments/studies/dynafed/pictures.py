"""Draws pictures of DynaFed's synthetic set; the figures come from study.py in this folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from experiments.studies.dynafed.study import Made

COLOURS = {
    "synthetic": "#D55E00",
    "noise": "#999999",
    "real": "#0072B2",
    "no training": "#000000",
}  # Okabe and Ito
CLIENT_COLOURS = ["#D55E00", "#009E73", "#0072B2", "#CC79A7", "#E69F00"]
STAGES = ("sent out", "own", "average", "repaired")
COLUMNS = 10  # images per row


def draw(made: "Made", figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw everything about one run."""
    paths = [
        draw_images(made, folder / "images.png"),
        draw_labels(made, folder / "labels.png"),
        draw_loss(made, folder / "matching-loss.png"),
        draw_following(figures["following"], folder / "following.png"),
        draw_gradient(figures["gradient"], folder / "gradient.png"),
    ]
    return (
        [*paths, draw_clients(figures["clients"], folder / "clients.png")]
        if figures["clients"]
        else paths
    )


def softmax(labels: np.ndarray) -> np.ndarray:
    """Return the (samples, classes) probabilities of soft labels."""
    raised = np.exp(labels - labels.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def draw_images(made: "Made", path: Path) -> Path:
    """Draw one row per iteration; in each class's column is the image with the surest label.

    Pixels go far beyond black and white, so every row is shown from its own 1st to its 99th
    percentile.
    """
    probabilities = softmax(made.content["labels"])
    classes = list(range(min(COLUMNS, made.classes)))
    chosen = [int(probabilities[:, one].argmax()) for one in classes]
    rows = sorted(name for name in made.content if name.startswith("images@"))
    figure = Figure(figsize=(1.0 * len(chosen) + 1, 1.05 * len(rows) + 0.6), layout="constrained")
    axes = figure.subplots(len(rows), len(chosen), squeeze=False)
    scale, shift = (
        np.array(values)[:, None, None] for values in (made.dataset.std, made.dataset.mean)
    )
    for row, name in enumerate(rows):
        colours = made.content[name][chosen] * scale + shift
        low, high = np.percentile(colours, [1, 99])
        for column, sample in enumerate(chosen):
            axis, image = axes[row, column], np.clip((colours[column] - low) / (high - low), 0, 1)
            axis.imshow(image.transpose(1, 2, 0), cmap="gray", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
            if row == 0:
                number = classes[column]
                title = (
                    f"{made.dataset.classes[number]}\n{100 * probabilities[sample, number]:.0f} %"
                )
                axis.set_title(title, fontsize=7)
            if column == 0:
                axis.set_ylabel(f"{int(name.removeprefix('images@'))}", fontsize=8)
    figure.supylabel("iteration", fontsize=9)
    figure.savefig(path, dpi=130)
    return path


def draw_labels(made: "Made", path: Path) -> Path:
    """Draw every sample's soft label, samples in the order of their surest class."""
    probabilities = softmax(made.content["labels"])
    order = np.lexsort((-probabilities.max(axis=1), probabilities.argmax(axis=1)))
    figure = Figure(figsize=(5, 6), layout="constrained")
    axis = figure.subplots()
    shown = axis.imshow(
        probabilities[order], aspect="auto", cmap="viridis", interpolation="nearest", vmin=0
    )
    axis.set(
        xlabel="class",
        ylabel="sample, by surest class",
        title=f"learned labels, uniform would be {1 / made.classes:.2g}",
    )
    axis.set_xticks(range(made.classes), made.dataset.classes, rotation=90, fontsize=7)
    figure.colorbar(shown, label="probability")
    figure.savefig(path, dpi=130)
    return path


def draw_loss(made: "Made", path: Path) -> Path:
    """Draw every iteration's loss, and the running mean that decides whether the set is used."""
    losses = made.content["losses"]
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis = figure.subplots()
    axis.plot(losses, color="#BBBBBB", linewidth=0.5, label="one iteration")
    window = min(100, len(losses))
    means = np.convolve(losses, np.ones(window) / window, mode="valid")
    axis.plot(
        np.arange(window - 1, len(losses)),
        means,
        color=COLOURS["synthetic"],
        label=f"mean of the last {window}",
    )
    axis.axhline(
        made.params.max_loss,
        color="black",
        linestyle=":",
        label=f"accepted below {made.params.max_loss:g}",
    )
    axis.set(
        xlabel="iteration",
        ylabel="matching loss",
        title=f"round {made.round}: 1 means that the steps came no closer",
    )
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    return path


def draw_following(distances: Mapping[str, list[float]], path: Path) -> Path:
    """Draw figure 6 left."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis = figure.subplots()
    for name, values in distances.items():
        look: dict[str, Any] = (
            {"linestyle": ":", "zorder": 3}
            if name == "no training"
            else {"marker": "o", "markersize": 3}
        )
        axis.plot(values, color=COLOURS[name], label=name, **look)
    axis.set(
        xlabel="start t",
        ylabel="cosine distance to $w^{t+s}$",
        title="after s' steps from $w^t$ on each set",
        ylim=(0, None),
    )
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    return path


def draw_gradient(found: Mapping[str, list[dict[str, float]]], path: Path) -> Path:
    """Draw theorem 1's delta and the cosine along the path."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, values in found.items():
        for axis, key in ((left, "delta"), (right, "cosine")):
            axis.plot(
                [value[key] for value in values],
                marker="o",
                markersize=3,
                color=COLOURS[name],
                label=name,
            )
    left.set(
        xlabel="checkpoint",
        ylabel=r"$\delta$",
        title="distance to the gradient on all data, relative",
        yscale="log",
    )
    left.axhline(1, color="black", linestyle=":", linewidth=0.8)
    right.set(xlabel="checkpoint", ylabel="cosine", title="cosine with the gradient on all data")
    right.axhline(0, color="black", linestyle=":", linewidth=0.8)
    right.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    return path


def draw_clients(found: list[dict[str, Any]], path: Path) -> Path:
    """Draw figure 3: four points per round and client."""
    rounds = sorted({one["round"] for one in found})
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axis = figure.subplots()
    for colour, client in zip(
        CLIENT_COLOURS, sorted({one["client"] for one in found}), strict=False
    ):
        points = [
            (4 * rounds.index(one["round"]) + STAGES.index(one["stage"]), one["loss"], one["stage"])
            for one in found
            if one["client"] == client
        ]
        axis.plot(
            [x for x, _, _ in points],
            [loss for _, loss, _ in points],
            color=colour,
            label=f"client {client}",
        )
        for stage, marker in zip(STAGES, ".v^*", strict=True):
            shown = [(x, loss) for x, loss, name in points if name == stage]
            size = 9 if stage == "repaired" else 5
            axis.plot(*np.array(shown).T.reshape(2, -1), marker, color=colour, markersize=size)
    ticks = list(range(4 * len(rounds)))
    axis.set_xticks(ticks, [stage for _ in rounds for stage in STAGES], rotation=90, fontsize=7)
    for number in range(1, len(rounds)):
        axis.axvline(4 * number - 0.5, color="#CCCCCC", linewidth=0.8)
    axis.set(
        ylabel="loss on the client's own data",
        title=f"rounds {rounds[0]} to {rounds[-1]}",
        yscale="log",
    )
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    return path


def draw_scratch(found: Mapping[str, Mapping[str, Any]], path: Path) -> Path:
    """Draw figure 6 right: one group of bars per run."""
    figure = Figure(figsize=(max(4.5, 2.5 * len(found)), 3.8), layout="constrained")
    axis = figure.subplots()
    for group, figures in enumerate(found.values()):
        for number, (name, score) in enumerate(figures["from_scratch"].items()):
            label = name if group == 0 else None
            bar = axis.bar(
                group + 0.27 * (number - 1), 100 * score, 0.25, color=COLOURS[name], label=label
            )
            axis.bar_label(bar, fmt="%.1f", fontsize=7)
    axis.set_xticks(range(len(found)), [name.replace(": ", "\n") for name in found], fontsize=7)
    axis.set(ylabel="test accuracy, %", title="a new network trained on the set alone")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    return path
