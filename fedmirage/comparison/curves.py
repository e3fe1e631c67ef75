"""Draws accuracy by round."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from pandas import DataFrame

from fedmirage.comparison.folders import load_runs

STYLES = ("-", "--", ":", "-.")  # curves that coincide stay visible
Curve = tuple[str, Sequence[Mapping[int, float]]]  # a label, and for every seed values by round


def draw_runs(folders: list[Path], path: Path) -> Path:
    """Draw the accuracy on the test set by round, one curve per run."""
    curves: list[Curve] = []
    for folder, config, lines in load_runs(folders)[0]:
        rounds = [line for line in lines if line["kind"] == "round"]
        values = {
            one["round"]: one["accuracy"] for one in rounds if one.get("accuracy") is not None
        }
        if values:
            curves.append((f"{config['methods']} ({folder.name})", [values]))
    return draw_by_round(curves, path)


def draw_by_round(curves: Iterable[Curve], path: Path) -> Path:
    """Draw means over seeds, and between which values the seeds lie, for rounds that all have."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for number, (label, seeds) in enumerate(curves):
        values = DataFrame(list(seeds)).dropna(axis="columns").sort_index(axis="columns")
        colour, style = f"C{number % 10}", STYLES[number % len(STYLES)]
        axes.plot(values.columns, values.mean(), style, color=colour, label=label)
        edges = values.min(), values.max()
        axes.fill_between(values.columns, *edges, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="round", ylabel="accuracy on the test set")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path
