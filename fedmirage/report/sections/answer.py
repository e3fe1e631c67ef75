"""The answer: which differences the numbers support, their picture, and the two tables.

Differences are to the baseline and to the own placebo, with their intervals.
"""

import statistics
from collections.abc import Callable, Collection
from typing import Any

from fedmirage.common.wire.metrics import FURTHER_SCORES
from fedmirage.comparison.outcome import Outcome, Standing
from fedmirage.comparison.rows import METRICS
from fedmirage.comparison.statistics import CONFIDENCE, Difference
from fedmirage.comparison.table import (
    AVERAGED,
    NONE,
    capitalise,
    limits,
    name_score,
    remarks,
    say_costs,
    say_difference,
    say_origin,
    say_spread,
    verdicts,
)
from fedmirage.report.groups import Group
from fedmirage.report.html import (
    Html,
    PageSection,
    bullets,
    details,
    element,
    join,
    plot,
    table,
    varied_table,
)

SCORES_CAPTION = (
    "Scores of the last five evaluated rounds in per cent, over the whole test set. Balanced"
    " accuracy and macro-F1 are means over classes, so rare classes count as much as common ones."
)
AREA = (
    " The area under the ROC curve says how well the outputs rank samples: 50 is chance. It cannot"
    " be added up from parts, so clients' own models have none."
)
Compare = Callable[[Standing], Difference | None]
HEAD = ("Methods", "Percentage points", "Seeds", "Verdict", "Smallest visible", "Seeds missing")
FAR = 2.5  # times as far out as the middle one of all rows lies outside the axis


def answer(group: Group) -> PageSection:
    """Say what was found, then show it."""
    outcome = group.outcome
    said = [element("p", sentence, class_="answer") for sentence in conclusions(group)]
    drawn = differences(group)
    tables = [accuracy_table(group), scores_table(group), costs_table(group)]
    parts = [*said, drawn.html if drawn else "", *tables]
    if remarked := [*limits(outcome), *remarks(outcome)]:
        parts.append(element("div", bullets(remarked), class_="remarks"))
    if long := [(short, name) for name, short in outcome.short.items() if name != short]:
        named = [join((element("b", short), ": ", element("code", name))) for short, name in long]
        parts.append(details("Methods with their parameters", bullets(named)))
    title = "The answer" if len(outcome.standings) > 1 else "The result"
    return PageSection("answer", title, join(parts), drawn.plots if drawn else {})


def conclusions(group: Group) -> list[str]:
    """Say what may be said; before the end of a comparison, that it is not over."""
    if len(group.outcome.standings) < 2:
        return ["There is one methods line here, so nothing is compared."]
    going = ["Runs are still under way, so this is not the answer yet."] * group.going
    return going + verdicts(group.outcome)


def accuracy_table(group: Group) -> Html:
    """Show what every row reached, and those differences that exist."""
    outcome, count = group.outcome, len(group.outcome.seeds)
    named = comparisons(outcome)
    compared = {label: compare for label, compare in named.items() if find_rows(group, compare)}
    rows = []
    for standing in outcome.ranked:
        mark = AVERAGED * any(score.averaged for score in standing.scores.values())
        cells = [say_spread(standing.final), say_spread(standing.last_five)]
        marked = [cell if cell == NONE else cell + mark for cell in cells]
        found = [compare(standing) for compare in compared.values()]
        said = [_say_claim(difference, count) for difference in found]
        name = group.labels[standing.entry.name]
        rows.append([name, *marked, *said, _state(group, standing)])
    where = outcome.question.where
    caption = f"{name_score(outcome)} on {where} in per cent, {count} seed{'s' * (count > 1)}"
    if count > 1:
        caption += ": mean ± standard deviation"
    if compared:
        caption += ". Differences are those of the last five evaluated rounds, in percentage points"
    if compared and count > 1:
        caption += f", ± half the {100 * CONFIDENCE:.0f} % interval"
    head = ("Methods", "Final", "Last five", *compared, "Runs")
    return varied_table(caption, head, rows, _classes(outcome))


def scores_table(group: Group) -> Html:
    """Show the accuracy beside the other scores, as far as the runs have them."""
    outcome = group.outcome
    found = {
        metric: [standing.by(metric).last_five for standing in outcome.ranked] for metric in METRICS
    }
    known = {metric: spreads for metric, spreads in found.items() if any(spreads)}
    if not known.keys() & FURTHER_SCORES.keys():
        return Html()
    cells = zip(*(map(say_spread, spreads) for spreads in known.values()), strict=True)
    names = [group.labels[standing.entry.name] for standing in outcome.ranked]
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    head = ("Methods", *(capitalise(METRICS[metric]) for metric in known))
    return table(f"{SCORES_CAPTION}{AREA * ('auc' in known)}", head, rows, _classes(outcome))


def costs_table(group: Group) -> Html:
    """Show what it costs every row to reach the target."""
    outcome = group.outcome
    target = outcome.target
    if target is None or (len(outcome.standings) < 2 and not outcome.given_target):
        return Html()
    rows = [
        [group.labels[standing.entry.name], *say_costs(standing, target)]
        for standing in outcome.ranked
    ]
    some = "; (2/3) means that two of three seeds did" if len(outcome.seeds) > 1 else ""
    caption = f"Until {100 * target:.2f} % are reached{say_origin(outcome)}{some}"
    head = ("Methods", "Rounds", "MB", "Seconds", "Drift", "Allows secagg")
    return varied_table(caption, head, rows, _classes(outcome))


def _say_claim(difference: Difference | None, seeds: int) -> Html:
    """Write a difference, and what its interval allows to be said."""
    verdict = ""
    if difference is not None and difference.margin is not None:
        verdict = difference.verdict
    said = element("span", verdict, class_=f"verdict {verdict.partition(' ')[0]}".strip())
    return join((say_difference(difference), said if seeds > 1 else ""))


def _classes(outcome: Outcome) -> list[str | None]:
    """Mark the rows of placebos."""
    return ["placebo" if one.entry.name in outcome.placebos else None for one in outcome.ranked]


def _state(group: Group, standing: Standing) -> str:
    """Count the runs of a row by what became of them."""
    states = [run.status for run in group.runs[standing.entry.name].values()]
    counted = {state: states.count(state) for state in dict.fromkeys(states)}
    return ", ".join(f"{count} {state}" for state, count in counted.items())


def differences(group: Group) -> PageSection | None:
    """Draw all differences, the largest first; there is nothing to draw without any."""
    options, tables, names = [], [], list(group.labels.values())
    for label, compare in comparisons(group.outcome).items():
        found = find_rows(group, compare)
        if found:
            ranked = sorted(found, key=lambda number: -found[number].mean)
            rows = [_row(number, found[number]) for number in ranked]
            options.append({"label": label, "rows": rows, "range": useful_range(found.values())})
            cells = [
                [names[number], say_difference(one), one.pairs, one.verdict, *say_limits(one)]
                for number in ranked
                if (one := found[number])
            ]
            tables.append(varied_table(label, HEAD, cells))
    if not options:
        return None
    what = group.outcome.question.what
    said = (
        f"Differences of the mean {what} of the last five evaluated rounds, paired over seeds,"
        f" with {100 * CONFIDENCE:.0f} % intervals of a paired t-test. A hollow mark is undecided,"
        " and an arrow points at what lies outside the picture. Verdicts are corrected for all"
        " methods of the group. The numbers also say which differences these seeds could have"
        " shown, and how many more would settle the question."
    )
    label = f"Differences of the last-five {what} in percentage points"
    spec = {"kind": "intervals", "label": label, "options": options}
    drawn = plot("differences", label, join(tables))
    html = join((drawn, element("p", said, class_="note")))  # the picture before what explains it
    return PageSection("differences", "", html, {"differences": spec})


def comparisons(outcome: Outcome) -> dict[str, Compare]:
    """Name what rows are compared with."""
    return {f"To {outcome.baseline}": outcome.to_baseline, "To its placebo": outcome.to_placebo}


def say_limits(difference: Difference) -> tuple[str, str]:
    """Write the smallest visible difference and the missing seeds, where they are known."""
    visible, missing = difference.smallest_visible, difference.seeds_missing
    return (
        NONE if visible is None else f"{100 * visible:.2f}",
        NONE if missing is None else str(missing),
    )


def find_rows(group: Group, compare: Compare) -> dict[int, Difference]:
    """Find the differences that exist, by the number of their row."""
    found = map(compare, group.outcome.standings)
    return {number: one for number, one in enumerate(found) if one is not None}


def useful_range(found: Collection[Difference]) -> list[float]:
    """Choose the ends of the axis: zero, and all intervals that do not lie or reach far away."""
    margins = [one.margin or 0.0 for one in found]
    reach = [abs(one.mean) + margin for one, margin in zip(found, margins, strict=True)]
    limit = FAR * statistics.median_low(reach) or max(reach)
    near = [pair for pair in zip(found, margins, strict=True) if abs(pair[0].mean) <= limit]
    low = max(-limit, min([0.0, *(one.mean - margin for one, margin in near)]))
    high = min(limit, max([0.0, *(one.mean + margin for one, margin in near)]))
    return [low, high]


def _row(number: int, one: Difference) -> dict[str, Any]:
    known = {"series": number, "mean": one.mean, "margin": one.margin}
    return {**known, "seeds": one.pairs, "verdict": one.verdict}
