"""One table of everything: every recorded run, by setting and row, in README.md and as a page.

Runs have the same setting if their settings differ in nothing but ROW. Each row is compared over
seeds with FedAvg, with its placebo and with the recipe of its setting; a setting's comparisons of
one kind are judged together.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.reproduce.jobs import MORE, numbers_of
from experiments.reproduce.records import recorded_runs
from fedmirage.common.errors import DataError
from fedmirage.common.settings.config import configure
from fedmirage.comparison.outcome import bare
from fedmirage.comparison.rows import FEDAVG, placebo_of
from fedmirage.comparison.scores import read_score
from fedmirage.comparison.statistics import Difference, judge_together, paired_difference
from fedmirage.comparison.table import AVERAGED, say_difference, say_verdict
from fedmirage.report.html import element, join, table
from fedmirage.report.page import ASSETS, STYLES

PAGE = "everything.html"
WIDE = """body { display: block; max-width: none; }
#main { max-width: none; padding: 1rem; }
#main th, #main td { white-space: normal; text-align: left; min-width: 7rem; }
#main tbody th { min-width: 22rem; }
"""
KINDS = {"fedavg": "minus FedAvg", "placebo": "minus placebo", "recipe": "minus recipe"}
HEADS = ("Setting", "Methods", "Seeds", "Mean of the last five rounds", *KINDS.values())
RECIPE = "fedavgm + swa"
OTHERS = ("lr", "schedule", "optimizer-state", "validation")  # what rows of a setting may differ in
ROW = {"methods", "warm-start", "eval-every", "server-threads", *MORE, *OTHERS}


@dataclass
class EveryRow:
    """The runs of one row of a setting."""

    methods: str
    extras: str  # what differs from the setting's FedAvg, such as another learning rate
    scores: dict[int, float] = field(default_factory=dict)
    averaged: bool = False

    @property
    def name(self) -> str:
        """Its methods line and what else it does differently."""
        return f"`{self.methods}`{self.extras}"

    @property
    def is_recipe(self) -> bool:
        """Whether it is the best that was found without virtual data: recipe.md."""
        return bare(self.methods) == RECIPE and not self.extras


Rows = dict[tuple[str, str], EveryRow]
Settings = Mapping[str, Any]


def read_everything(results: Path) -> dict[str, Rows]:
    """Read all recorded runs, by setting and row."""
    runs = read_runs(results)
    grouped = group_runs(runs)
    titles = name_settings([json.loads(rest) for rest in grouped])
    return {
        title: read_rows(names, runs, results)
        for title, names in zip(titles, grouped.values(), strict=True)
    }


def read_runs(results: Path) -> dict[str, Settings]:
    """Read the settings of all recorded runs, by their names."""
    return {folder.name: read_settings(found) for folder, found in recorded_runs(results).items()}


def group_runs(runs: Mapping[str, Settings]) -> dict[str, list[str]]:
    """Group runs by their setting: the numbers of all settings but those of ROW, as a text."""
    grouped: dict[str, list[str]] = {}
    for name, settings in runs.items():
        rest = {key: one for key, one in numbers_of(settings).items() if key not in ROW}
        grouped.setdefault(json.dumps(rest, sort_keys=True), []).append(name)
    return grouped


def read_rows(names: Sequence[str], runs: Mapping[str, Settings], results: Path) -> Rows:
    """Read the rows of a setting from its runs."""
    usual, rows = usual_settings([runs[name] for name in names]), Rows()
    for name in names:
        settings, score = runs[name], read_score(results / "runs" / name)
        key = (str(settings["methods"]), say_extras(settings, usual, runs))
        if score is not None:
            row = rows.setdefault(key, EveryRow(*key))
            row.scores[int(settings["seed"])] = score.last_five
            row.averaged |= score.averaged
    return rows


def read_settings(recorded: Settings) -> dict[str, Any]:
    """Return all settings of a recorded run; settings that are newer have their defaults."""
    usual = configure({}).flat()
    return {key: recorded.get(key, value) for key, value in usual.items()}


def name_settings(every: Sequence[Settings]) -> list[str]:
    """Name settings by what readers know them by, and by what else tells two of them apart."""
    titles: list[str] = []
    for settings in every:
        data, _, _ = str(settings["dataset"]).partition("(")
        clients = f"{settings['clients']} clients"
        if settings["participation"] < 1:
            clients += f", {100 * settings['participation']:g} % of them a round"
        rounds = f"{settings['rounds']} rounds"
        title = f"{data}, {settings['partition']}, {settings['model']}, {clients}, {rounds}"
        if title in titles:
            first = every[titles.index(title)]
            apart = [key for key in settings if settings[key] != first[key]]
            title += "".join(f", {key} {settings[key]}" for key in apart)
        titles.append(title)
    return titles


def usual_settings(runs: Sequence[Settings]) -> Settings:
    """Return the settings of a setting's FedAvg from its first round on, or of its first run."""
    plain = [one for one in runs if one["methods"] == FEDAVG and not one["warm-start"]]
    default = configure({})
    return next(
        (one for one in plain if one["optimizer-state"] == default.optimizer_state), runs[0]
    )


def say_extras(settings: Settings, usual: Settings, runs: Mapping[str, Settings]) -> str:
    """Write how a run differs from the setting's FedAvg beside its methods, and since when."""
    parent, _, taken = str(settings["warm-start"]).rpartition("@")
    told = []
    for key in (key for key in OTHERS if settings[key] != usual[key]):
        later = bool(parent) and runs[parent][key] != settings[key]
        told.append(f", {key} {settings[key]}" + f" from round {int(taken or 0) + 1} on" * later)
    return "".join(told)


def compare_rows(rows: Rows) -> dict[str, dict[tuple[str, str], Difference]]:
    """Compare all rows of a setting with FedAvg, placebo and recipe, each kind at once."""
    recipe = next((row for row in rows.values() if row.is_recipe), None)
    chosen = {seed for row in rows.values() if "validation" in row.extras for seed in row.scores}
    taken: dict[str, dict[tuple[str, str], Difference]] = {kind: {} for kind in KINDS}
    for key, row in rows.items():
        others = {"fedavg": rows.get((FEDAVG, "")), "recipe": recipe}
        others["placebo"] = rows.get((placebo_of(row.methods), row.extras))
        for kind, other in others.items():
            # Seeds that had a part in the choice of the recipe say nothing about it.
            left_out = chosen if recipe in (row, other) else ()
            own = {seed: score for seed, score in row.scores.items() if seed not in left_out}
            difference = paired_difference(own, other.scores) if other else None
            if difference is not None and other is not row:
                taken[kind][key] = difference
    return {
        kind: dict(zip(found, judge_together(list(found.values())), strict=True))
        for kind, found in taken.items()
    }


def list_everything(results: Path) -> list[list[str]]:
    """Write every row of every setting, best first inside a setting."""
    settings = read_everything(results).items()
    return [[title, *cells] for title, rows in settings for cells in list_setting(rows)]


def list_setting(rows: Rows) -> list[list[str]]:
    """Write the rows of one setting, best first."""
    judged, lines = compare_rows(rows), []
    for key, row in sorted(
        rows.items(), key=lambda item: -statistics.fmean(item[1].scores.values())
    ):
        interval = paired_difference(row.scores, dict.fromkeys(row.scores, 0.0))
        mean = say_difference(interval).lstrip("+") + AVERAGED * row.averaged
        told = [say_judged(judged[kind].get(key)) for kind in KINDS]
        lines.append([row.name, say_seeds(sorted(row.scores)), mean, *told])
    return lines


def say_seeds(seeds: Sequence[int]) -> str:
    """Write how many seeds there are, and which."""
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{len(seeds)} ({seeds[0]} to {seeds[-1]})"
    return f"{len(seeds)} ({', '.join(map(str, seeds))})"


def say_judged(difference: Difference | None) -> str:
    """Write a difference with its verdict; one pair has none."""
    if difference is None or difference.margin is None:
        return say_difference(difference)
    return f"{say_difference(difference)}: {say_verdict(difference)}"


def make_markdown(results: Path) -> str:
    """Write the table for README.md."""
    lines = [list(HEADS), ["---"] * len(HEADS)]
    before = ""
    for title, *cells in list_everything(results):
        lines.append([title if title != before else "", *cells])
        before = title
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def make_setting(run: str, results: Path) -> str:
    """Write the rows of the one setting that a recorded run belongs to."""
    runs = read_runs(results)
    names = next((names for names in group_runs(runs).values() if run in names), None)
    if names is None:
        raise DataError(f"there is no recorded run {run} in {results / 'runs'}")
    lines = [list(HEADS[1:]), ["---"] * len(HEADS[1:])]
    lines += list_setting(read_rows(names, runs, results))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def make_page(results: Path) -> str:
    """Write the table as a page of its own, whose columns sort when their heads are pressed."""
    rows = [[cell.replace("`", "") for cell in cells] for cells in list_everything(results)]
    title = "Everything that was recorded"
    note = "README.md beside this page explains the columns. Press a head to sort by it."
    body = join((element("h1", title), element("p", note), table(title, HEADS, rows)))
    styles = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in STYLES)
    script = (ASSETS / "sort.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{styles}{WIDE}</style>\n"
        f'<main id="main">{body}</main>\n<script>\n{script}</script>\n</html>\n'
    )
