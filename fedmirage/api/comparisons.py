"""A comparison as Python has it: frames, pictures, what may be said, and the page about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmirage.api.runs import RunResult, write_page
from fedmirage.common.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from fedmirage.comparison.statistics import Spread


class Comparison:
    """What a comparison left in its folder. Frames are attributes, pictures are methods.

    It is compared by the score that it was run with, or by another one that its runs have.
    Scores are shares, and differences are differences of shares: 0.01 is a percentage point.
    """

    def __init__(self, folder: str | Path, score: str | None = None) -> None:
        from fedmirage.comparison.outcome import FILE, read_outcome

        self.folder = Path(folder).expanduser().absolute()
        if not (self.folder / FILE).exists():
            raise DataError(
                f"there is no {FILE} in {self.folder}; give the folder of a comparison that ended"
            )
        self.outcome = read_outcome(self.folder, score)

    @cached_property
    def table(self) -> DataFrame:
        """One row per methods line, by its name.

        The mean and the standard deviation over seeds of the final score and of the mean of the
        last five rounds; then the difference of the latter to the baseline and to the line's own
        placebo, each with half the width of its interval (`margin`) and a verdict: "ahead",
        "behind", "equivalent within 1.5 points" or "undecided", and empty where nothing is
        compared.
        """
        from pandas import DataFrame

        rows = []
        for standing in self.outcome.standings:
            row: dict[str, Any] = {"methods": standing.entry.name, "seeds": len(standing.scores)}
            row |= _flatten(standing.spreads)
            for name, found in self.outcome.differences(standing).items():
                row[name] = found and found.mean
                row[f"{name}_margin"] = found and found.margin
                row[f"{name}_verdict"] = found.verdict if found else ""
            entry = standing.entry
            row |= {"placebo": entry.placebo, "lr": entry.lr, "schedule": entry.schedule}
            rows.append(row)
        texts = "methods seeds to_baseline_verdict to_placebo_verdict placebo schedule"
        return _with_numbers(DataFrame(rows), texts).set_index("methods")

    @cached_property
    def scores(self) -> DataFrame:
        """One row per methods line and score, whichever is compared: mean and standard deviation.

        The scores are accuracy, balanced accuracy, macro-F1 and the area under the ROC curve
        (`auc`); those that no run has are left out.
        """
        from pandas import DataFrame

        from fedmirage.comparison.rows import METRICS

        rows = []
        for standing in self.outcome.standings:
            for metric in METRICS:
                one = standing.by(metric)
                if one.scores:
                    known = {"methods": standing.entry.name, "score": metric}
                    rows.append({**known, "seeds": len(one.scores), **_flatten(one.spreads)})
        columns = "methods score seeds final final_std last_five last_five_std"
        frame = _with_numbers(DataFrame(rows, columns=columns.split()), "methods score seeds")
        return frame.set_index(["methods", "score"])

    @cached_property
    def differences(self) -> DataFrame:
        """One row per difference that can be taken: its mean, interval, verdict and power.

        `smallest_visible` is the smallest difference that these seeds could have shown, and
        `seeds_missing` how many more would settle it if mean and spread stayed.
        """
        from pandas import DataFrame

        rows, baseline = [], self.outcome.question.baseline
        for standing in self.outcome.standings:
            for name, found in self.outcome.differences(standing).items():
                if found is not None:
                    half = float("nan") if found.margin is None else found.margin
                    ends = {"low": found.mean - half, "high": found.mean + half}
                    other = baseline if name == "to_baseline" else standing.entry.placebo
                    row = {"methods": standing.entry.name, "kind": name, "other": other}
                    rows.append({**row, **found.as_values(), **ends})
        columns = "methods kind other mean margin pairs low high verdict"
        power = "p_different p_equivalent smallest_visible seeds_missing"
        frame = DataFrame(rows, columns=f"{columns} {power}".split())
        return _with_numbers(frame, "methods kind other pairs verdict")

    @cached_property
    def runs(self) -> DataFrame:
        """One row per run: its scores, its costs to the target, and why it failed if it did."""
        from pandas import DataFrame

        from fedmirage.comparison.export import list_runs

        texts = "methods placebo schedule seed averaged_local_models secagg failed"
        return _with_numbers(DataFrame(list_runs(self.outcome)), texts)

    @cached_property
    def rounds(self) -> DataFrame:
        """One row per run and round: methods, seed, round, all scores, loss, and costs so far.

        Rounds that a method takes over from FedAvg are there for both of them.
        """
        from pandas import DataFrame

        from fedmirage.report.export import list_rounds
        from fedmirage.report.groups import find_groups

        (group,) = find_groups([self.folder]).groups
        group = replace(group, outcome=self.outcome)  # which may have another score
        every = DataFrame(list(list_rounds(group))).drop(columns=["group", "reason"])
        frame = every.dropna(subset=["round"]).astype({"round": "int64"})  # not runs without any
        return _with_numbers(frame, "methods placebo schedule seed state round").reset_index(
            drop=True
        )

    @property
    def sentences(self) -> list[str]:
        """Which differences the numbers support, in sentences."""
        from fedmirage.comparison.table import sentences

        return sentences(self.outcome)

    @property
    def remarks(self) -> list[str]:
        """What a reader of the numbers must know: runs that failed, methods that never acted."""
        from fedmirage.comparison.table import remarks

        return remarks(self.outcome)

    def run(self, methods: str, seed: int | None = None) -> RunResult:
        """Open one of the runs; without a seed, that of the first."""
        runs = {name: one.entry.runs for name, one in self.outcome.by_name.items()}
        chosen = self.outcome.seeds[0] if seed is None else seed
        if methods not in runs or chosen not in runs[methods]:
            known = ", ".join(map(repr, runs))
            raise DataError(
                f"there is no run of {methods!r} with seed {chosen}; there are {known}, with seeds"
                f" {', '.join(map(str, self.outcome.seeds))}"
            )
        return RunResult(self.folder / runs[methods][chosen])

    def plot(self) -> Figure:
        """Draw the score by round: the mean of every line over seeds, with its range."""
        from fedmirage.api.plots import draw_curves

        return draw_curves(self.rounds, self.outcome.short, self.outcome.question)

    def plot_differences(self) -> Figure:
        """Draw every difference to the baseline and to the placebo with its interval."""
        from fedmirage.api.plots import draw_differences

        return draw_differences(self.differences, self.outcome)

    def page(self) -> Path:
        """Write report.html, the page about this comparison, into its folder; return its path."""
        return write_page(self.folder)

    def __repr__(self) -> str:
        rows, seeds = len(self.outcome.standings), len(self.outcome.seeds)
        return f"<Comparison of {rows} methods lines over {seeds} seeds, {self.folder.name}>"

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        from fedmirage.comparison.table import name_score, say_difference, say_spread

        others = (f"\N{MINUS SIGN} {other}" for other in (self.outcome.baseline, "placebo"))
        heads = ("methods", "final", "last five", *others)
        rows = []
        for standing in self.outcome.ranked:
            spreads = map(say_spread, standing.spreads.values())
            differences = map(say_difference, self.outcome.differences(standing).values())
            rows.append([self.outcome.short[standing.entry.name], *spreads, *differences])
        table = DataFrame(rows, columns=heads).set_index("methods").to_html()
        said = "".join(f"<p>{escape(text)}</p>" for text in [*self.remarks, *self.sentences])
        return f"<p>{name_score(self.outcome)} in %, mean and spread over seeds</p>{table}{said}"


def _flatten(spreads: Mapping[str, Spread | None]) -> dict[str, Any]:
    """Give mean and standard deviation names of their own."""
    found: dict[str, Any] = {}
    for name, spread in spreads.items():
        found |= {name: spread and spread.mean, f"{name}_std": spread and spread.deviation}
    return found


def _with_numbers(frame: DataFrame, others: str) -> DataFrame:
    """Make all columns but some numbers, also those in which nothing is known."""
    kinds = {name: "float64" for name in frame.columns if name not in others.split()}
    return frame.astype(kinds)
