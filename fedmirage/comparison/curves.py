"""Draws accuracy by round."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from pandas import DataFrame

from fedmirage.comparison.folders import load_runs
from fedmirage.comparison.plan import QUESTION
from fedmirage.comparison.rows import GLOBAL, Question, headline
from fedmirage.comparison.scores import score_of
from fedmirage.records.lines import rounds_of

STYLES = ("-", "--", ":", "-.")  # curves that coincide stay visible
Curve = tuple[str, Sequence[Mapping[int, float]]]  # a label, and for every seed values by round


def draw_runs(folders: list[Path], path: Path, question: Question = QUESTION) -> Path:
    """Draw the accuracy on the test set by round, or what is compared, one curve per run."""
    curves: list[Curve] = []
    for folder, config, lines in load_runs(folders)[0]:
        score = question.score
        if score == GLOBAL:
            score = headline(config.get("server-data", "test"))
        values = {
            line["round"]: value
            for line in rounds_of(lines)
            if (value := score_of(line, question.metric, score)) is not None
        }
        if values:
            curves.append((f"{config['methods']} ({folder.name})", [values]))
    return draw_by_round(curves, path, f"{question.what} on {question.where}")


def draw_by_round(
    curves: Iterable[Curve], path: Path, label: str = "accuracy on the test set"
) -> Path:
    """Draw means over seeds, and between which values the seeds lie, for rounds that all have."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for number, (label, seeds) in enumerate(curves):
        values = DataFrame(list(seeds)).dropna(axis="columns").sort_index(axis="columns")
        colour, style = f"C{number % 10}", STYLES[number % len(STYLES)]
        axes.plot(values.columns, values.mean(), style, color=colour, label=label)
        edges = values.min(), values.max()
        axes.fill_between(values.columns, *edges, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="round", ylabel=label)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path
