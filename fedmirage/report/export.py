"""Exports the numbers of the page: CSV by run and round, LaTeX by row, JSON with everything."""

from collections.abc import Iterator, Sequence
from typing import Any

from fedmirage.common.wire.metrics import FURTHER_SCORES
from fedmirage.comparison.export import Writers, as_csv, as_json, describe_outcome, latex_table
from fedmirage.comparison.scores import score_of
from fedmirage.report.data import make_sections
from fedmirage.report.groups import Group
from fedmirage.report.runs import AXES


def describe_groups(groups: Sequence[Group]) -> dict[str, Any]:
    """Describe the answer of every group, and the numbers of every plot, in plain values."""
    content = []
    for group in groups:
        told = {"folder": str(group.folder), **describe_outcome(group.outcome)}
        plots = {
            key: spec for one in make_sections(group, False) for key, spec in one.plots.items()
        }
        content.append({**told, "rounds": list(list_rounds(group)), "plots": plots})
    return {"groups": content}


def list_rounds(group: Group) -> Iterator[dict[str, Any]]:
    """Describe every round of every run in flat values; a run without rounds by its state."""
    score = group.outcome.question.score
    for name, runs in group.runs.items():
        entry = group.outcome.by_name[name].entry
        for seed, run in runs.items():
            known: dict[str, Any] = {"group": group.folder.name, "methods": name}
            known |= {"placebo": entry.placebo, "lr": entry.lr, "schedule": entry.schedule}
            known |= {"seed": seed, "state": run.status, "reason": run.reason}
            for place, line in enumerate(run.rounds or [{}]):
                sums = {axis: run.axes[axis][place] if run.rounds else None for axis in AXES}
                yield {
                    **known,
                    "round": sums.pop("rounds"),
                    "accuracy": score_of(line, "accuracy", score),
                    "loss": score_of(line, "loss", score),
                    **{name: score_of(line, name, score) for name in FURTHER_SCORES},
                    **{f"{axis}_so_far": value for axis, value in sums.items()},
                    "drift": line.get("diagnostics", {}).get("drift"),
                    "epsilon": line.get("dp", {}).get("epsilon"),
                }


WRITERS: Writers = {
    "csv": lambda groups: as_csv([row for group in groups for row in list_rounds(group)]),
    "json": lambda groups: as_json(describe_groups(groups)),
    "latex": lambda groups: "\n".join(latex_table(group.outcome) for group in groups),
}
