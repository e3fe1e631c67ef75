"""Tables and pictures of a partition, for `fedmirage partition`."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from rich import box
from rich.table import Table as RichTable

from fedmirage.common.data.heterogeneity import (
    ClientRange,
    Heterogeneity,
    class_table,
    heterogeneity,
)
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.set import DataSet
from fedmirage.show.words import spread_out

# Limits of the table in the terminal; further rows and columns are left out in the middle.
ROWS, COLUMNS, WIDTH = 24, 10, 80
SEPARATE = 200  # clients that are drawn with lines between them
PANELS = 20  # clients whose pixels are drawn
IMAGES = 500  # images per client in such a panel
# The palest shade is not white, so that a single sample is visible.
SHADES = LinearSegmentedColormap.from_list("shades", colormaps["Blues"](np.linspace(0.2, 1, 64)))
# The colours of Okabe and Ito, which colour-blind readers can distinguish too.
CHANNELS = {"red": "#D55E00", "green": "#009E73", "blue": "#0072B2"}
LABELS = {
    "sizes": "samples per client",
    "size_deviation": "standard deviation of the sizes",
    "size_gini": "Gini coefficient of the sizes",
    "classes_held": "classes per client",
    "effective_classes": "effective classes per client, exp(entropy)",
    "kullback_leibler": "Kullback-Leibler divergence to all (nats)",
    "jensen_shannon": "Jensen-Shannon divergence to all (nats)",
    "total_variation": "total variation to all",
    "hellinger": "Hellinger distance to all",
    "earth_mover": "earth mover's (L1) distance to all",
}


def report(dataset: DataSet, parts: Sequence[Indices], out_dir: Path) -> list[Path]:
    """Draw both pictures into `out_dir` (created if necessary) and return their paths."""
    out_dir.mkdir(parents=True, exist_ok=True)
    return [
        draw_classes(dataset, parts, out_dir / "clients-by-classes.png"),
        draw_pixels(dataset, parts, out_dir / "pixels-by-client.png"),
    ]


def measure(dataset: DataSet, parts: Sequence[Indices]) -> Heterogeneity:
    """Compute the heterogeneity metrics of a partition of `dataset`."""
    counts = class_table(dataset.train, parts, len(dataset.classes))
    return heterogeneity(counts, [len(part) for part in parts])


def show_classes(dataset: DataSet, parts: Sequence[Indices]) -> RichTable:
    """Make the clients-by-classes table for a terminal; a large one is cut in the middle."""
    counts = class_table(dataset.train, parts, len(dataset.classes))
    rows, columns = _abbreviate(counts.shape[0], ROWS), _abbreviate(counts.shape[1], COLUMNS)
    headings, caption = _headings(dataset.classes, columns)
    title = f"{dataset.name}: samples of each class by client"
    shown = RichTable(title=title, box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for heading in ("client", *headings, "samples", "classes"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row is None:
            shown.add_row(*["..."] * (len(columns) + 3))
            continue
        cells = ["..." if column is None else str(counts[row, column] or "·") for column in columns]
        shown.add_row(str(row), *cells, str(len(parts[row])), str((counts[row] > 0).sum()))
    shown.add_section()
    totals = ["..." if column is None else str(counts[:, column].sum()) for column in columns]
    shown.add_row("all", *totals, str(sum(map(len, parts))), str((counts.sum(axis=0) > 0).sum()))
    shown.caption = "\n".join(filter(None, [caption, *_say_of_samples(len(dataset.train), parts)]))
    return shown


def _say_of_samples(samples: int, parts: Sequence[Indices]) -> list[str]:
    """Say how many samples belong to no client, and how many to several."""
    holders = np.zeros(samples, dtype=np.int64)
    for part in parts:
        holders[part] += 1
    unused, common = int((holders == 0).sum()), int((holders > 1).sum())
    texts = [f"{unused} training samples belong to no client"] if unused else []
    if common:
        texts.append(f"{common} belong to several clients, one to {holders.max()} of them")
    return texts


def show_heterogeneity(metrics: Heterogeneity) -> RichTable:
    """Make a table of the heterogeneity metrics for a terminal."""
    title = f"Heterogeneity of {metrics.clients} clients, {metrics.samples} samples"
    shown = RichTable(title=title, box=box.SIMPLE_HEAD)
    shown.add_column("measure")
    for heading in ("least", "mean", "most"):
        shown.add_column(heading, justify="right")
    for entry in fields(metrics):
        value = getattr(metrics, entry.name)
        if isinstance(value, ClientRange):
            cells = map(_write_number, (value.minimum, value.mean, value.maximum))
            shown.add_row(LABELS[entry.name], *cells)
        elif entry.name in LABELS:
            shown.add_row(LABELS[entry.name], "", _write_number(value), "")
    return shown


def _write_number(number: float) -> str:
    """Write four digits and never an exponent, because large numbers here count samples."""
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def draw_classes(dataset: DataSet, parts: Sequence[Indices], path: Path) -> Path:
    """Draw a heat map with one column per client and one row per class; empty cells stay white.

    The clients' sizes are drawn above it.
    """
    table = class_table(dataset.train, parts, len(dataset.classes))
    clients, rows = table.shape
    width = float(np.clip(2.5 + 0.45 * clients, 6, 15))
    height = float(np.clip(2.2 + 0.32 * rows, 4, 14))
    figure = Figure(figsize=(width, height), layout="constrained")
    above, map_axes = figure.subplots(2, 1, sharex=True, height_ratios=[1, max(2.0, height - 2)])
    sizes, few = [len(part) for part in parts], clients <= SEPARATE
    if few:
        above.bar(np.arange(clients), sizes, color="#4D4D4D", width=0.85)
    else:
        above.stairs(sizes, np.arange(clients + 1) - 0.5, color="#4D4D4D", fill=True)
    above.set_ylabel("samples")
    above.tick_params(which="both", bottom=False)
    above.spines[["top", "right"]].set_visible(False)
    shading = Normalize(0, max(1, int(table.max())))
    look = {"aspect": "auto", "cmap": SHADES, "norm": shading, "interpolation": "none"}
    image = map_axes.imshow(np.ma.masked_equal(table.T, 0), **look)
    map_axes.set(xlabel="client", ylabel="class", xticks=_ticks(clients))
    map_axes.set_yticks(_ticks(rows), [dataset.classes[row] for row in _ticks(rows)])
    map_axes.set_xticks(np.arange(clients + 1) - 0.5 if few else [], minor=True)
    map_axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    map_axes.grid(which="minor", color="#DDDDDD", linewidth=0.4)
    map_axes.tick_params(which="minor", length=0)
    if clients <= 25 and rows <= 20:
        for client, row in np.argwhere(table > 0):
            look = {"color": "white" if float(shading(table[client, row])) > 0.5 else "black"}
            look |= {"ha": "center", "va": "center", "fontsize": 7}
            map_axes.text(client, row, str(table[client, row]), **look)
    figure.colorbar(image, ax=map_axes, label="samples of the class", pad=0.01, aspect=40)
    figure.savefig(path, dpi=130)
    return path


def draw_pixels(dataset: DataSet, parts: Sequence[Indices], path: Path) -> Path:
    """Draw how often each pixel intensity occurs, one panel per client.

    The intensities of all clients together are drawn behind it in grey.
    """
    chosen = spread_out(len(parts), PANELS)
    names = CHANNELS if dataset.shape[0] == 3 else {"this client": "#0072B2"}
    everything = np.sort(np.concatenate(list(parts)))
    behind = _intensities(dataset.train.images, everything, 4 * IMAGES, 1)[0]
    columns = min(5, len(chosen))
    rows = -(-len(chosen) // columns)
    figure = Figure(figsize=(2.6 + 2.3 * columns, 1.0 + 1.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    edges = np.linspace(0, 256, len(behind) + 1)
    # Handwriting, for one, is mostly background, which would dwarf all else on a linear scale.
    scale = "log" if behind.max() > 10 * np.median(behind) else "linear"
    for panel, client in zip(axes.flat, chosen, strict=False):
        panel.stairs(behind, edges, fill=True, color="#CCCCCC", label="all clients")
        curves = _intensities(dataset.train.images, parts[client], IMAGES, len(names))
        for curve, (name, colour) in zip(curves, names.items(), strict=True):
            panel.stairs(curve, edges, color=colour, linewidth=1.2, label=name)
        panel.set_title(_caption(dataset, client, parts[client]), fontsize=9)
        panel.set(yscale=scale, xlim=(0, 256), xticks=[0, 128, 255])
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes.flat[len(chosen) :]:
        panel.set_visible(False)
    figure.supxlabel("pixel intensity", fontsize=10)
    figure.supylabel(f"share of pixels ({scale})", fontsize=10)
    some = f", {len(chosen)} of {len(parts)} clients" if len(chosen) < len(parts) else ""
    figure.suptitle(f"{dataset.name}: pixel intensities{some}", fontsize=11)
    shown = axes.flat[0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    return path


def _caption(dataset: DataSet, client: int, part: Indices) -> str:
    """Name a client, its size and, if all of its samples are of one domain, that domain."""
    caption = f"client {client}: {len(part)} samples"
    if not dataset.domains:
        return caption
    held = np.unique(dataset.train.columns["domain"][part])
    return f"{caption}, {dataset.domains[held[0]]}" if len(held) == 1 else caption


def _intensities(
    images: npt.NDArray[np.uint8], part: Indices, limit: int, channels: int, bins: int = 32
) -> npt.NDArray[np.float64]:
    """Return pixel histograms of at most `limit` images: one per channel, or one for all.

    Each sums to one.
    """
    chosen = images[part[spread_out(len(part), limit)]]
    groups = [chosen] if channels == 1 else [chosen[:, channel] for channel in range(channels)]
    counts = np.stack(
        [np.bincount(group.ravel() // (256 // bins), minlength=bins) for group in groups]
    )
    return np.asarray(counts / counts.sum(axis=1, keepdims=True), dtype=np.float64)


def _headings(classes: Sequence[str], columns: Sequence[int | None]) -> tuple[list[str], str]:
    """Use class names as headings where they fit, else numbers and a caption with the names."""
    shown = {column: classes[column] for column in columns if column is not None}
    if sum(max(5, len(name) + 1) for name in shown.values()) + 25 <= WIDTH:
        return ["..." if column is None else shown[column] for column in columns], ""
    caption = ", ".join(f"{column} {name}" for column, name in shown.items())
    return ["..." if column is None else str(column) for column in columns], f"classes: {caption}"


def _abbreviate(length: int, limit: int) -> list[int | None]:
    """Return all positions, or the first and last ones with None for what lies between."""
    if length <= limit:
        return list(range(length))
    return [*range(limit // 2), None, *range(length - limit // 2, length)]


def _ticks(length: int, limit: int = 40) -> list[int]:
    """Return every, every second, fifth, tenth, ... position, so that there are at most `limit`."""
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500, length)
    return list(range(0, length, next(step for step in steps if length / step <= limit)))
