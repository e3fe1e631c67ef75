"""Exports a comparison: CSV by run, JSON with everything, LaTeX by row."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedmirage.comparison.outcome import COSTS, Outcome, Standing
from fedmirage.comparison.rows import METRICS
from fedmirage.comparison.scores import Score
from fedmirage.comparison.statistics import CONFIDENCE, EQUIVALENCE
from fedmirage.comparison.table import name_score, say_difference, say_spread

Writers = Mapping[str, Callable[[Any], str]]  # by kind: what makes the text of a file
SPECIAL = {"\\": r"\textbackslash{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as CSV; objects, because a column of numbers would turn 3 beside None into 3.0."""
    from pandas import DataFrame

    return str(DataFrame(rows, dtype=object).to_csv(index=False, lineterminator="\r\n"))


def as_json(content: Any) -> str:
    """Write plain values as JSON."""
    return json.dumps(content, indent=1) + "\n"


def write_files(
    writers: Writers, content: Any, files: Mapping[str, Path | None]
) -> dict[str, Path]:
    """Write the files that were asked for; return their paths by kind."""
    wanted = {kind: path for kind, path in files.items() if path is not None}
    for kind, path in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(writers[kind](content), encoding="utf-8", newline="")
    return wanted


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Describe settings, runs and differences in plain values."""
    rows = []
    for standing in outcome.standings:
        row = asdict(standing.entry)
        row |= _describe_spreads(standing)
        row["scores"] = {metric: _describe_spreads(standing.by(metric)) for metric in METRICS}
        for name, one in outcome.differences(standing).items():
            row[name] = one and one.as_values()
        rows.append(row)
    return {
        "question": asdict(outcome.question),
        "settings": outcome.settings.flat(),
        "seeds": list(outcome.seeds),
        "confidence": CONFIDENCE,
        "equivalence": EQUIVALENCE,
        "target": outcome.target,
        "rows": rows,
        "runs": list_runs(outcome),
    }


def latex_table(outcome: Outcome) -> str:
    """Make the first table for a paper that loads booktabs; a comment says what it compares."""
    lines = [f"% {name_score(outcome)} in per cent", r"\begin{tabular}{lrrrr}", r"\toprule"]
    baseline = _escape(outcome.baseline)
    lines += [rf"Methods & Final & Last five & $-$ {baseline} & $-$ placebo \\", r"\midrule"]
    for standing in outcome.standings:
        cells = [*map(say_spread, standing.spreads.values())]
        cells += map(say_difference, outcome.differences(standing).values())
        signs = [cell.replace("±", r"\pm ") for cell in cells]
        shown = ["--" if cell == "-" else f"${cell}$" for cell in signs]
        lines.append(" & ".join([_escape(standing.entry.name), *shown]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _describe_spreads(standing: Standing) -> dict[str, Any]:
    return {name: one and asdict(one) for name, one in standing.spreads.items()}


def _escape(text: str) -> str:
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def list_runs(outcome: Outcome) -> list[dict[str, Any]]:
    """Describe every run in flat values; a run that failed has no numbers."""
    found, target = [], outcome.target
    for standing in outcome.standings:
        entry = standing.entry
        row = {"methods": entry.name, "placebo": entry.placebo, "lr": entry.lr}
        for seed in outcome.seeds:
            score = standing.scores.get(seed)
            cost = (score and target is not None and score.reach(target)) or {}
            found.append(
                {
                    **row,
                    "schedule": entry.schedule,
                    "seed": seed,
                    **_describe_scores(score),
                    "averaged_local_models": score and score.averaged,
                    **{f"{name}_to_target": cost.get(name) for name in COSTS},
                    "drift": score and score.drift,
                    "secagg": entry.secagg,
                    "failed": standing.failed.get(seed, ""),
                }
            )
    return found


def _describe_scores(score: Score | None) -> dict[str, Any]:
    """Return every score of a run: the final one, and the mean of the last five rounds."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        one = score and score.by(metric)
        found[f"final_{metric}"] = one and one.final
        found[f"last5_{metric}"] = one and one.last_five
    return found


WRITERS: Writers = {
    "csv": lambda outcome: as_csv(list_runs(outcome)),
    "json": lambda outcome: as_json(describe_outcome(outcome)),
    "latex": latex_table,
}
