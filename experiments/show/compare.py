"""Runs beside each other: a table of how they ended, and a picture of their accuracy by round."""

from pathlib import Path
from typing import Any

from rich.table import Table

from common.errors import FedmirageError
from server.record.results import FILE, read

COLUMNS = {"final_accuracy": "final", "best_accuracy": "best", "last5_accuracy": "last five"}


def load(folders: list[Path]) -> list[tuple[Path, list[dict[str, Any]]]]:
    """The lines of every run; a folder without any is refused."""
    runs = [(folder, read(folder / FILE)) for folder in folders]
    empty = [str(folder) for folder, lines in runs if not lines or lines[0]["kind"] != "config"]
    if empty:
        raise FedmirageError(
            f"there are no results in {', '.join(empty)}; give directories of runs, as --out named"
            " them"
        )
    return runs


def table(folders: list[Path]) -> Table:
    """One row a run."""
    made = Table(title="runs", title_justify="left")
    for column in ("run", "rounds", *COLUMNS.values(), "MB up", "status"):
        made.add_column(column, overflow="fold", no_wrap=column != "run")
    for folder, (config, *lines) in load(folders):
        summary: dict[str, Any] = next(
            (line for line in reversed(lines) if line["kind"] == "summary"),
            {"status": "unfinished"},
        )
        what = (
            f"{folder.name}: {config['methods']} on {config['dataset']}, {config['partition']},"
            f" seed {config['seed']}"
        )
        scores = [
            f"{100 * summary[key]:.2f}" if summary.get(key) is not None else "-" for key in COLUMNS
        ]
        rounds, up = str(summary.get("rounds", "-")), f"{summary.get('bytes_up', 0) / 1e6:.1f}"
        made.add_row(what, rounds, *scores, up, summary["status"])
    return made


def picture(folders: list[Path], path: Path) -> Path:
    """Accuracy on the test set by round, one line a run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for folder, (config, *lines) in load(folders):
        points = [
            (line["round"], line["accuracy"])
            for line in lines
            if line["kind"] == "round" and line["accuracy"] is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), label=f"{config['methods']} ({folder.name})")
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy on the test set")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
