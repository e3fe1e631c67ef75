"""Everything that the page shows, as one object of plain values.

The page has it inside, and a page that is served while runs are under way asks for it again.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedmirage.comparison.rows import FEDAVG
from fedmirage.report.groups import Found, Group, describe_settings, find_groups
from fedmirage.report.html import Html, PageSection, bullets, element, join
from fedmirage.report.sections.answer import answer
from fedmirage.report.sections.audit import audit, is_audited, name_attacks
from fedmirage.report.sections.costs import phases
from fedmirage.report.sections.images import features, galleries
from fedmirage.report.sections.lines import budget, drift, progress, terms
from fedmirage.report.sections.records import configuration, notes, runs
from fedmirage.report.sections.shares import classes, clients, confusion, domains, holdings

VERSION = 1  # of this object
SEVERAL = "Runs and comparisons"
AUDIT = "What do these methods give away?"
Article = tuple[str, str, Html, Group, list[PageSection]]  # its id, title, head and content
# How rows are told apart on all plots of a group: one tone each, a dash for placebos.
TONES = 7  # colours of the style sheet; further rows take them again, with another dash
DASHES = ("solid", "dot", "longdashdot")
PLACEBO = "dash"


def gather(folders: Sequence[Path], tsne: bool = False) -> dict[str, Any]:
    """Read the folders and return what the page shows.

    html      fragments of the page: what stands above the groups, and each group's sections
    plots     numbers of every plot, by the group's and the plot's name
    series    how the rows of a group are told apart, by the group's name
    going     whether any run is still under way
    """
    return arrange(find_groups(folders), tsne)


def arrange(found: Found, tsne: bool = False) -> dict[str, Any]:
    """Turn what was found into what the page shows."""
    groups = []
    plots: dict[str, Any] = {}
    series: dict[str, Any] = {}
    for name, title, head, group, sections in make_articles(found.groups, tsne):
        plots |= {f"{name}-{key}": spec for one in sections for key, spec in one.plots.items()}
        series[name] = describe_series(group)
        shown = [
            {"id": f"{name}-{one.key}", "title": one.title, "html": one.html} for one in sections
        ]
        groups.append({"id": name, "title": title, "head": head, "sections": shown})
    html = {"contents": contents_of(groups), "problems": problems_of(found), "groups": groups}
    return {
        "version": VERSION,
        "title": title_of_page(found.groups),
        "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "going": any(group.going for group in found.groups),
        "html": html,
        "plots": plots,
        "series": series,
    }


def make_articles(groups: Sequence[Group], tsne: bool) -> list[Article]:
    """Make an article of every group; of several, all answers first, and then what lies behind."""
    answers: list[Article] = []
    others: list[Article] = []
    for number, group in enumerate(groups):
        name, title, head = f"group-{number + 1}", title_of(group), head_of(group)
        first, *rest = make_sections(group, tsne)
        if len(groups) == 1:
            return [(name, title, head, group, [first, *rest])]
        answers.append((name, title, head, group, [first]))
        link = element("a", first.title, href=f"#{name}")
        others.append((f"{name}-behind", f"Behind it: {title}", element("p", link), group, rest))
    return answers + others


def make_sections(group: Group, tsne: bool) -> list[PageSection]:
    """Make the sections of a group, first what it was run for.

    Some exist only where they have something.
    """
    makers = (answer, audit, progress, classes, clients, domains, confusion, holdings, drift)
    found = [make(group) for make in (*makers, terms, phases, galleries)]
    found.append(features(group, tsne))
    found += [make(group) for make in (budget, notes, runs, configuration)]
    sections = [section for section in found if section is not None]
    if not is_audited(group):
        return sections
    # Runs of an audit are there to be attacked; how accurate they are is no answer.
    sections[0] = replace(sections[0], title="Accuracy of the attacked models")
    return sorted(sections, key=lambda section: section.key != "audit")


def title_of(group: Group) -> str:
    """Name a group: as its comparison is called, or else as its folder, or after its attacks."""
    if is_audited(group):
        return name_attacks(group)
    return group.outcome.question.title or group.folder.name


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


def title_of_page(groups: Sequence[Group]) -> str:
    """Write the title of the page."""
    if groups and all(map(is_audited, groups)):
        return AUDIT
    return question_of(groups[0]) if len(groups) == 1 else SEVERAL


def question_of(group: Group) -> str:
    """Write the title of a page about one group."""
    names, question = list(group.runs), group.outcome.question
    helps = f"Which method helps on {group.outcome.settings.dataset}?"
    return question.title or (names[0] if len(names) == 1 else helps)


def head_of(group: Group) -> Html:
    """Say what was run, and on what."""
    outcome, count = group.outcome, len(group.all_runs)
    rows = f"{len(outcome.standings)} methods line{'s' * (len(outcome.standings) > 1)}"
    seeds = f"seed{'s' * (len(outcome.seeds) > 1)} {', '.join(map(str, outcome.seeds))}"
    text = f"{rows}, {seeds}, {count} run{'s' * (count > 1)} in "
    place = element("code", group.folder.name)
    said = join((text, place, f": {describe_settings(outcome.settings)}."))
    return element("p", said, class_="lead")


def contents_of(groups: Sequence[dict[str, Any]]) -> Html:
    """List the sections of every group, as links."""
    parts = []
    for group in groups:
        links = [
            element("li", element("a", section["title"], href=f"#{section['id']}"))
            for section in group["sections"]
        ]
        if len(groups) > 1:
            parts.append(element("p", element("a", group["title"], href=f"#{group['id']}")))
        parts.append(element("ul", join(links)))
    return join(parts)


def problems_of(found: Found) -> Html:
    """Name what is damaged or missing."""
    parts = [*found.damaged, *(f"There are no results in {folder} yet." for folder in found.empty)]
    return element("div", bullets(parts), class_="remarks") if parts else join(())
