"""Pictures of runs and comparisons, as matplotlib's figures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from pandas import DataFrame

    from fedmirage.comparison.outcome import Outcome
    from fedmirage.comparison.rows import Question

STYLES = {"to_baseline": ("o", "C0", -0.12), "to_placebo": ("s", "C1", 0.12)}


class NotebookFigure(Figure):
    """A figure that notebooks show by themselves, whether or not pyplot is set up for it."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=96)
        return file.getvalue()


def draw_rounds(rounds: DataFrame, columns: Sequence[str], title: str) -> Figure:
    """Draw columns by round."""
    figure, axes = _begin(title)
    for name in columns:
        values = rounds[name].dropna()
        axes.plot(values.index, values, marker=".", label=name)
    return _finish(figure, axes)


def draw_curves(rounds: DataFrame, names: Mapping[str, str], question: Question) -> Figure:
    """Draw the mean score of every line over seeds; the band is the range of the seeds."""
    figure, axes = _begin(f"{question.what} on {question.where}")
    placebos = set(rounds["placebo"])
    colours: dict[str, str] = {}
    for name, own in rounds.groupby("methods", sort=False):
        method = next(iter(rounds.loc[rounds["placebo"] == name, "methods"]), name)
        colour = colours.setdefault(method, f"C{len(colours) % 10}")
        by_round = own.groupby("round")[question.metric]
        mean = by_round.mean().dropna()
        style = "--" if name in placebos else "-"
        axes.plot(mean.index, mean, style, color=colour, label=names[name])
        low, high = (edge.loc[mean.index] for edge in (by_round.min(), by_round.max()))
        axes.fill_between(mean.index, low, high, color=colour, alpha=0.15, linewidth=0)
    return _finish(figure, axes)


def draw_differences(differences: DataFrame, outcome: Outcome) -> Figure:
    """Draw differences with their intervals, in percentage points."""
    what, names = outcome.question.what, outcome.short
    figure, axes = _begin(f"difference of the mean {what} of the last five rounds")
    order = list(dict.fromkeys(differences["methods"]))
    for kind, (marker, colour, shift) in STYLES.items():
        own = differences[differences["kind"] == kind]
        label = f"to {outcome.baseline if kind == 'to_baseline' else 'its placebo'}"
        heights = [order.index(name) + shift for name in own["methods"]]
        margins = 100 * own["margin"].astype("float64").fillna(0)
        means = 100 * own["mean"]
        axes.errorbar(means, heights, xerr=margins, fmt=marker, color=colour, label=label)
    axes.axvline(0, color="grey", linewidth=1)
    axes.set_yticks(range(len(order)), [names[name] for name in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("percentage points; bars are 95 % intervals, where there are several seeds")
    axes.legend(fontsize=8)
    return figure


def _begin(title: str) -> tuple[Figure, Any]:
    figure = NotebookFigure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    return figure, axes


def _finish(figure: Figure, axes: Any) -> Figure:
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8)
    return figure
