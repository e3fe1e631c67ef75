"""How every run ended, what was noted on the way, and the settings with which to repeat it."""

import statistics
from collections.abc import Iterable

from fedmirage.common.settings.config import defaults
from fedmirage.comparison.advice import repeat_comparison, repeat_run
from fedmirage.comparison.rows import Question, choice_of
from fedmirage.comparison.scores import LAST, score_of
from fedmirage.report.groups import Group
from fedmirage.report.html import (
    Html,
    PageSection,
    bullets,
    details,
    element,
    join,
    table,
    varied_table,
)
from fedmirage.report.runs import ReportedRun
from fedmirage.server.record.shown import call_clients

FEW = 12  # runs or notes that are shown without being asked for


def runs(group: Group) -> PageSection:
    """List all runs with their state; failed ones with their reason."""
    rows, classes, question = [], [], group.outcome.question
    for name, row in group.runs.items():
        for seed, run in row.items():
            rows.append([group.labels[name], seed, *_cells(run, question)])
            classes.append(run.status if run.status != "finished" else None)
    scores = ("Final %", "Best %", "Last five %")
    head = ("Methods", "Seed", "State", "Rounds", *scores, "MB up", "MB down", "Folder")
    caption = (
        f"All runs: {question.what} on {question.where}, or that of the average of the clients'"
        " models where there is no global one, and what was sent"
    )
    listed = varied_table(caption, head, rows, classes)
    states = [run.status for run in group.all_runs]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    number = f"{len(states)} run{'s' * (len(states) > 1)}"
    shown = details(f"{number}: {counted}", listed, opened=len(states) <= FEW)
    return PageSection("runs", "Runs", shown)


def notes(group: Group) -> PageSection:
    """Repeat cautions and decisions of methods, and name methods that never acted."""
    said: dict[str, list[str]] = {}  # the rows and seeds by what was noted
    for name, row in group.runs.items():
        for seed, run in row.items():
            for remark in _remarks(run):
                who = f"{group.labels[name]}, seed {seed}"
                said.setdefault(remark, []).append(who)
    if not said:
        return PageSection("notes", "Notes", element("p", "Nothing was noted."))
    items = [
        join((remark, " ", element("span", f"({'; '.join(who)})", class_="note")))
        for remark, who in said.items()
    ]
    listed = bullets(items)
    folded = details(f"{len(items)} notes", listed) if len(items) > FEW else listed
    return PageSection("notes", "Notes", folded)


def configuration(group: Group) -> PageSection:
    """Show the settings, what differs from the defaults first, and the commands."""
    outcome, parts = group.outcome, []
    if group.whole:
        label = "The command that repeats this comparison"
        if any(one.entry.choice != choice_of(outcome.settings) for one in outcome.standings):
            label += ", without --tune: which rates and schedules were tried is not recorded"
        parts.append(_command(label, repeat_comparison(outcome)))
    commands = [
        _command(f"{group.labels[name]}, seed {seed}", repeat_run(run.config))
        for name, row in group.runs.items()
        for seed, run in row.items()
        if run.config
    ]
    listed = join(commands)
    label = f"The command{'s' * (len(commands) > 1)} that repeat{'s' * (len(commands) == 1)}"
    label += " single runs, with all their rounds" if len(commands) > 1 else " this run"
    parts.append(details(label, listed, opened=len(commands) == 1) if commands else Html())
    parts.append(details("Resolved settings", settings_table(group)))
    parts += _versions(group.all_runs)
    return PageSection("configuration", "Configuration", join(parts))


def settings_table(group: Group) -> Html:
    """List the settings that all runs share, those that are not the defaults first."""
    own = {"methods", "seed", "out", "warm-start", "resume"}  # of single runs
    settings, usual = group.outcome.settings.flat(), defaults()
    changed = {key: value != usual[key] for key, value in settings.items() if key not in own}
    keys = sorted(changed, key=lambda key: not changed[key])
    rows = [[key, _written(settings[key]), _written(usual[key])] for key in keys]
    classes = ["changed" if changed[key] else None for key in keys]
    caption = "Settings of all runs, those that differ from the defaults first"
    return table(caption, ("Setting", "Value", "Default"), rows, classes)


def _cells(run: ReportedRun, question: Question) -> list[object]:
    """Describe a run by all of its rounds, those that it took over from another run included."""
    found = (score_of(line, question.metric, question.score) for line in run.rounds)
    scored = [one for one in found if one is not None]
    scores = ["-"] * 3
    if scored:
        numbers = (scored[-1], max(scored), statistics.fmean(scored[-LAST:]))
        scores = [f"{100 * number:.2f}" for number in numbers]
    sent = [
        f"{sum(line.get(name, 0) for line in run.rounds) / 1e6:.1f}"
        for name in ("bytes_up", "bytes_down")
    ]
    reason = f": {run.reason}" if run.reason else ""
    state = element("span", f"{run.status}{reason}", class_=f"state {run.status}")
    done = run.rounds[-1]["round"] if run.rounds else 0
    rounds = f"{done} of {run.config.get('rounds', '?')}"
    return [state, rounds, *scores, *sent, element("code", run.folder.name)]


def _remarks(run: ReportedRun) -> Iterable[str]:
    facts = run.facts
    yield from (f"{name} never acted: {why}" for name, why in facts.get("idle", {}).items())
    yield from facts.get("notes", [])
    for line in run.rounds:
        for entry in line.get("refused", []):
            who = call_clients([entry["partition"]], run.names)
            left_out = f"{who} was left out: {entry['reason']}"
            yield f"round {line['round']}: {left_out}"


def _command(label: str, command: str) -> Html:
    shown = element("pre", element("code", command), tabindex=0)
    copy = element("button", "Copy", type="button", class_="copy", hidden="hidden")
    return element("div", join((element("p", label), shown, copy)), class_="command")


def _written(value: object) -> str:
    return "(none)" if value == "" else str(value)


def _versions(found: Iterable[ReportedRun]) -> list[Html]:
    """List versions and what was resolved for the first run of which it is known."""
    for run in found:
        if run.config.get("versions"):
            known = {**run.config["versions"], **run.config.get("resolved", {})}
            rows = [
                [key, ", ".join(map(str, value)) if isinstance(value, list) else value]
                for key, value in known.items()
                if key != "token"
            ]
            caption = f"Versions, and what was resolved in {run.folder.name}"
            return [details("Versions and data", table(caption, ("Name", "Value"), rows))]
    return []
