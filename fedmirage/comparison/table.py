"""The answer of a comparison: two tables of 80 columns and a few sentences."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedmirage.comparison.outcome import Outcome, Standing
from fedmirage.comparison.rows import choice_of
from fedmirage.comparison.statistics import UNDECIDED, VERDICTS, Difference, Spread

Cell = TypeVar("Cell")
NONE = "-"
AVERAGED = "*"  # marks scores of the average of local models


def show_outcome(outcome: Outcome) -> Group:
    """Lay out everything that a comparison found."""
    title = outcome.question.title
    parts: list[RenderableType] = [Text(f"{title}\n", style="bold")] if title else []
    parts.append(accuracy_table(outcome))
    if outcome.target is not None:
        parts += ["", cost_table(outcome, outcome.target)]
    parts.append("")
    parts += [Text(f"{short}: {name}", style="dim") for name, short in _long(outcome)]
    parts.append(Text(say_seconds(outcome), style="dim"))
    parts += [Text(text, style="yellow") for text in remarks(outcome)]
    return Group(*parts, *(Text(sentence, style="bold") for sentence in sentences(outcome)))


def accuracy_table(outcome: Outcome) -> Table:
    """Show what every row reached, beside the baseline and beside its placebo; the best first."""
    rows, styles = [], []
    for standing in outcome.ranked:
        styles.append("dim" if standing.entry.name in outcome.placebos else "")
        if not standing.scores:
            rows.append(["failed", *[NONE] * 3])
            continue
        mark = AVERAGED * any(score.averaged for score in standing.scores.values())
        spreads = [say_spread(one) + mark for one in standing.spreads.values()]
        rows.append([*spreads, *map(say_difference, outcome.differences(standing).values())])
    seeds = f"{len(outcome.seeds)} seed{'s' * (len(outcome.seeds) > 1)}"
    title = f"{name_score(outcome)} in %, {seeds}; differences of the last five"
    head = ("final", "last five", f"- {outcome.baseline}", "- placebo")
    return _table(title, outcome, head, rows, styles)


def cost_table(outcome: Outcome, target: float) -> Table:
    """Show what it costs every row to reach the target."""
    title = f"Until {100 * target:.2f} % are reached{say_origin(outcome)}"
    rows = [say_costs(standing, target) for standing in outcome.ranked]
    return _table(title, outcome, ("rounds", "MB", "seconds", "drift", "secagg"), rows)


def name_score(outcome: Outcome) -> str:
    """Name what is compared."""
    return capitalise(outcome.question.what)


def capitalise(words: str) -> str:
    """Make words the beginning of a title."""
    return f"{words[:1].upper()}{words[1:]}"


def say_origin(outcome: Outcome) -> str:
    """Say where the target comes from, unless it was given."""
    return "" if outcome.given_target else f", {outcome.baseline}'s mean of the last five"


def say_seconds(outcome: Outcome) -> str:
    """List what the runs of every row took, the longest first."""
    taken = {
        outcome.short[one.entry.name]: sum(score.seconds for score in one.scores.values())
        for one in outcome.standings
    }
    longest = sorted(taken.items(), key=lambda item: -item[1])
    return f"seconds of all seeds: {', '.join(f'{name} {took:.0f}' for name, took in longest)}"


def find_same(head: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Find the columns that say the same in every row, and what they say."""
    if len(rows) < 2:
        return {}
    columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    return {name: cells[0] for name, cells in columns.items() if len(set(cells)) == 1}


def leave_out(
    same: Mapping[str, str], head: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> tuple[list[str], list[list[Cell]], str]:
    """Leave out columns that say the same in every row; the text says what they say."""
    kept = [place for place, name in enumerate(head) if name not in same]
    said = [f"{name} {text}" for name, text in same.items() if text != NONE]
    text = f"; in every line: {', '.join(said)}" if said else ""
    return [head[place] for place in kept], [[row[place] for place in kept] for row in rows], text


def sentences(outcome: Outcome) -> list[str]:
    """Say what the tests support, and last what these seeds could not have shown."""
    return [*verdicts(outcome), *limits(outcome)]


def verdicts(outcome: Outcome) -> list[str]:
    """Say what the tests support."""
    if len(outcome.seeds) < 2:
        return [
            "One seed has no spread, so these differences may be chance, and nothing is claimed.",
            "With --seeds 0,1,2 there are intervals.",
        ]
    to_baseline, to_placebo = _named_differences(outcome)
    found = [f"Over {len(outcome.seeds)} seeds, {_verdicts(to_baseline, outcome.baseline)}."]
    if any(difference for _, difference in to_placebo):
        text = _verdicts(to_placebo, "its placebo")
        found.append(f"{capitalise(text)}.")
    return found


def limits(outcome: Outcome) -> list[str]:
    """Say what these seeds could not have shown, if anything is undecided."""
    if len(outcome.seeds) < 2:
        return []
    to_baseline, to_placebo = _named_differences(outcome)
    unseen = _unseen(to_baseline, outcome.baseline) + _unseen(to_placebo, "its placebo")
    return [f"Undecided is not equal: {'; '.join(unseen)}."] if unseen else []


def _named_differences(
    outcome: Outcome,
) -> tuple[list[tuple[str, Difference | None]], list[tuple[str, Difference | None]]]:
    """Return every method's difference to the baseline and to its placebo, by its short name."""
    methods = [one for one in outcome.ranked if one.entry.name not in outcome.placebos]
    names = [outcome.short[one.entry.name] for one in methods]
    to_baseline = list(zip(names, map(outcome.to_baseline, methods), strict=True))
    return to_baseline, list(zip(names, map(outcome.to_placebo, methods), strict=True))


def remarks(outcome: Outcome) -> list[str]:
    """List what a reader of the tables must know: marks, failures, and methods that never acted."""
    found = []
    scores = [score for one in outcome.standings for score in one.scores.values()]
    if any(score.averaged for score in scores):
        found.append(
            f"{AVERAGED} the average of the clients' models, because no global model exists"
        )
    for standing in outcome.standings:
        name = outcome.short[standing.entry.name]
        found += [f"{name}, seed {seed}, failed: {why}" for seed, why in standing.failed.items()]
        said = {text for score in standing.scores.values() for text in score.remarks}
        found += [f"{name}: {text}" for text in sorted(said)]
    return found


def name_row(standing: Standing, outcome: Outcome) -> Text:
    """Name a row; where learning rates or schedules were chosen, with its own."""
    entry, usual = standing.entry, choice_of(outcome.settings)
    choices = [one.entry.choice for one in outcome.standings] if entry.is_line else []
    found = [f"lr={entry.lr:g}"] if any(choice.lr != usual.lr for choice in choices) else []
    if any(choice.schedule != usual.schedule for choice in choices):
        found.append(entry.schedule)
    return Text(" ".join([outcome.short[entry.name], *found]))


def say_spread(spread: Spread | None) -> str:
    """Write a mean and a standard deviation in per cent."""
    if spread is None:
        return NONE
    deviation = "" if spread.deviation is None else f" ±{100 * spread.deviation:.2f}"
    return f"{100 * spread.mean:.2f}{deviation}"


def say_costs(standing: Standing, target: float) -> list[str]:
    """Write rounds, megabytes and seconds to a target, then drift, and whether secagg is allowed.

    Where only some seeds got there, their number stands behind the rounds.
    """
    mean, reached = standing.to_target(target)
    part = "" if reached == len(standing.scores) else f" ({reached}/{len(standing.scores)})"
    cells = [NONE] * 3
    if mean:
        cells = [f"{mean['rounds']:.3g}{part}", f"{mean['bytes'] / 1e6:.1f}"]
        cells.append(f"{mean['seconds']:.1f}")
    drift = NONE if standing.drift is None else f"{standing.drift.mean:.3g}"
    return [*cells, drift, "yes" if standing.entry.secagg else "no"]


def say_difference(difference: Difference | None) -> str:
    """Write a difference in percentage points, with half the width of its interval."""
    if difference is None:
        return NONE
    margin = "" if difference.margin is None else f" ±{100 * difference.margin:.2f}"
    mean = round(100 * difference.mean, 2) + 0.0  # never -0.00
    return f"{mean:+.2f}{margin}"


def say_power(difference: Difference) -> str:
    """Say which differences these seeds could not have shown, and how many more would settle it."""
    if difference.smallest_visible is None:
        return "one pair of seeds shows no difference, however large"
    visible = f"differences below {100 * difference.smallest_visible:.1f} points are invisible"
    more = difference.seeds_missing
    seeds = "seed" if more == 1 else "seeds"
    return f"{visible}, and about {more or 'a thousand'} more {seeds} would settle it"


def say_verdict(difference: Difference) -> str:
    """Write a verdict for a cell of a table; an undecided one with its power in a few words."""
    if difference.verdict != UNDECIDED or difference.smallest_visible is None:
        return difference.verdict
    more = difference.seeds_missing or "many"
    return f"{UNDECIDED} (sees ≥ {100 * difference.smallest_visible:.1f}; seeds +{more})"


def _verdicts(differences: Sequence[tuple[str, Difference | None]], other: str) -> str:
    """List which rows are ahead of another, behind it, equivalent to it, or undecided."""
    joined = dict(zip(VERDICTS, ("of", "", "to", "against"), strict=True))
    found = []
    for verdict, word in joined.items():
        names = [
            name
            for name, difference in differences
            if difference is not None and difference.verdict == verdict
        ]
        text = " ".join(filter(None, (verdict, word, other)))
        found += [f"{text}: {', '.join(names)}"] if names else []
    return "; ".join(found) or f"nothing can be compared with {other}"


def _unseen(differences: Sequence[tuple[str, Difference | None]], other: str) -> list[str]:
    return [
        f"{name} against {other} ({say_power(difference)})"
        for name, difference in differences
        if difference is not None and difference.verdict == UNDECIDED
    ]


def _long(outcome: Outcome) -> list[tuple[str, str]]:
    """List the rows whose parameters the tables leave out."""
    return [(name, short) for name, short in outcome.short.items() if name != short]


def _table(
    title: str,
    outcome: Outcome,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str] = (),
) -> Table:
    """Make a table of all rows; columns that say the same everywhere go into its title."""
    names, cells, same = leave_out(find_same(head, rows), head, rows)
    table = Table(
        title=f"{title}{same}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("methods", overflow="fold", max_width=26)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for number, (standing, row) in enumerate(zip(outcome.ranked, cells, strict=True)):
        style = styles[number] if styles else ""
        table.add_row(name_row(standing, outcome), *row, style=style)
    return table
