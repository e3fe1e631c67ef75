"""How rows are told apart on all plots of a group: one tone each, a dash for placebos."""

from typing import Any

from fedmirage.comparison.rows import FEDAVG
from fedmirage.report.groups import Group

TONES = 7  # colours of the style sheet; further rows take them again, with another dash
DASHES = ("solid", "dot", "longdashdot")
PLACEBO = "dash"


def describe_series(group: Group) -> list[dict[str, Any]]:
    """Give every row its tone and dash; a placebo has the tone of its method."""
    outcome = group.outcome
    methods = {
        standing.entry.placebo: standing.entry.name
        for standing in outcome.standings
        if standing.entry.placebo
    }
    own = [name for name in outcome.by_name if name != FEDAVG and name not in methods]
    found = []
    for name in outcome.by_name:
        placebo = name in methods
        number = own.index(leader) if (leader := methods.get(name, name)) in own else -1
        dash = PLACEBO if placebo else DASHES[max(0, number) // TONES % len(DASHES)]
        found.append(
            {
                "name": name,
                "short": group.labels[name],
                "tone": number % TONES if number >= 0 else None,  # None is the colour of the text
                "dash": dash,
                "placebo": placebo,
            }
        )
    return found
