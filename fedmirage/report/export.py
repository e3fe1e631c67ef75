"""Exports the numbers of the page: CSV by run and round, LaTeX by row, JSON with everything."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedmirage.comparison.export import describe_outcome, latex_table, write_rows
from fedmirage.comparison.scores import score_of
from fedmirage.report.data import make_sections
from fedmirage.report.groups import Group
from fedmirage.report.runs import AXES


def write_csv(groups: Sequence[Group], path: Path) -> None:
    """Write one line per run and round; a run without rounds has one line with its state."""
    write_rows([row for group in groups for row in list_rounds(group)], path)


def write_json(groups: Sequence[Group], path: Path) -> None:
    """Write the answer of every group, and the numbers of every plot."""
    content = []
    for group in groups:
        told = {"folder": str(group.folder), **describe_outcome(group.outcome)}
        plots = {
            key: spec for one in make_sections(group, False) for key, spec in one.plots.items()
        }
        content.append({**told, "rounds": list(list_rounds(group)), "plots": plots})
    path.write_text(json.dumps({"groups": content}, indent=1) + "\n", encoding="utf-8")


def write_latex(groups: Sequence[Group], path: Path) -> None:
    """Write the table of accuracies of every group."""
    path.write_text("\n".join(latex_table(group.outcome) for group in groups), encoding="utf-8")


def list_rounds(group: Group) -> Iterator[dict[str, Any]]:
    """Describe every round of every run in flat values."""
    models = group.outcome.question.score
    for name, runs in group.runs.items():
        entry = group.outcome.by_name[name].entry
        for seed, run in runs.items():
            known: dict[str, Any] = {
                "group": group.folder.name,
                "methods": name,
                "placebo": entry.placebo,
            }
            known |= {"lr": entry.lr, "schedule": entry.schedule, "seed": seed}
            known |= {"state": run.status, "reason": run.reason}
            for place, line in enumerate(run.rounds or [{}]):
                sums = {axis: run.axes[axis][place] if run.rounds else None for axis in AXES}
                yield {
                    **known,
                    "round": sums.pop("rounds"),
                    "accuracy": score_of(line, "accuracy", models),
                    "loss": score_of(line, "loss", models),
                    **{f"{axis}_so_far": value for axis, value in sums.items()},
                    "drift": line.get("diagnostics", {}).get("drift"),
                    "epsilon": line.get("dp", {}).get("epsilon"),
                }


WRITERS = {"csv": write_csv, "json": write_json, "latex": write_latex}
