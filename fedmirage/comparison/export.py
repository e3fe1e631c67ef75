"""Takes the numbers of a comparison away: CSV by run, JSON with everything, LaTeX by row."""

import csv
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedmirage.comparison.outcome import Outcome
from fedmirage.comparison.statistics import CONFIDENCE
from fedmirage.comparison.table import say_difference, say_spread

SPECIAL = {"\\": r"\textbackslash{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}


def write_csv(outcome: Outcome, path: Path) -> None:
    """Write one line per run."""
    rows = list(_runs(outcome))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_json(outcome: Outcome, path: Path) -> None:
    """Write settings, runs and differences."""
    path.write_text(json.dumps(describe_outcome(outcome), indent=1) + "\n", encoding="utf-8")


def write_latex(outcome: Outcome, path: Path) -> None:
    """Write the table of accuracies for a paper that loads booktabs."""
    path.write_text(latex_table(outcome), encoding="utf-8")


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Describe settings, runs and differences in plain values."""
    rows = []
    for standing in outcome.standings:
        differences = {
            "to_fedavg": outcome.to_fedavg(standing),
            "to_placebo": outcome.to_placebo(standing),
        }
        found = {
            name: None if one is None else {**asdict(one), "verdict": one.verdict}
            for name, one in differences.items()
        }
        final, last_five = standing.final, standing.last_five
        rows.append(
            {
                **asdict(standing.entry),
                "final": final and asdict(final),
                "last_five": last_five and asdict(last_five),
                **found,
            }
        )
    return {
        "settings": outcome.settings.flat(),
        "seeds": list(outcome.seeds),
        "confidence": CONFIDENCE,
        "target": outcome.target,
        "rows": rows,
        "runs": list(_runs(outcome)),
    }


def latex_table(outcome: Outcome) -> str:
    """Make the table of accuracies."""
    lines = [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"Methods & Final & Last five & $-$ FedAvg & $-$ placebo \\",
        r"\midrule",
    ]
    for standing in outcome.standings:
        cells = [say_spread(standing.final), say_spread(standing.last_five)]
        cells += [say_difference(outcome.to_fedavg(standing))]
        cells += [say_difference(outcome.to_placebo(standing))]
        signs = [cell.replace("±", r"\pm ") for cell in cells]
        shown = ["--" if cell == "-" else f"${cell}$" for cell in signs]
        name = "".join(SPECIAL.get(sign, sign) for sign in standing.entry.name)
        lines.append(" & ".join([name, *shown]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _runs(outcome: Outcome) -> list[dict[str, Any]]:
    """Describe every run in flat values; a run that failed has no numbers."""
    found = []
    for standing in outcome.standings:
        for seed in outcome.seeds:
            score = standing.scores.get(seed)
            target = outcome.target
            cost = (score and target is not None and score.reach(target)) or {}
            found.append(
                {
                    "methods": standing.entry.name,
                    "placebo": standing.entry.placebo,
                    "lr": standing.entry.lr,
                    "schedule": standing.entry.schedule,
                    "seed": seed,
                    "final_accuracy": score and score.final,
                    "last5_accuracy": score and score.last_five,
                    "averaged_local_models": score and score.averaged,
                    **{
                        f"{name}_to_target": cost.get(name)
                        for name in ("rounds", "bytes", "seconds")
                    },
                    "drift": score and score.drift,
                    "secagg": standing.entry.secagg,
                    "failed": standing.failed.get(seed, ""),
                }
            )
    return found


WRITERS: dict[str, Callable[[Outcome, Path], None]] = {
    "csv": write_csv,
    "json": write_json,
    "latex": write_latex,
}
