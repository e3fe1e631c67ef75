"""How every run ended, what was noted on the way, and the settings with which to repeat it."""

from collections.abc import Iterable

from common.settings.config import defaults
from experiments.report.groups import Group
from experiments.report.html import (
    Html,
    Section,
    bullets,
    details,
    element,
    join,
    paragraph,
    table,
)
from experiments.report.repeat import repeat_comparison, repeat_run
from experiments.report.runs import ReportedRun

FEW = 12  # runs whose table is shown without being asked for
SCORES = ("final_accuracy", "best_accuracy", "last5_accuracy")


def runs(group: Group) -> Section:
    """List all runs with their state; failed ones with their reason."""
    rows, classes = [], []
    for name, row in group.runs.items():
        for seed, run in row.items():
            rows.append([group.outcome.short[name].strip(), seed, *_cells(run)])
            classes.append(run.status if run.status != "finished" else None)
    head = ("Methods", "Seed", "State", "Rounds", "Final %", "Best %", "Last five %", "MB up",
            "MB down", "Folder")  # fmt: skip
    caption = "All runs; accuracy is that of the global model on the test set"
    listed = table(caption, head, rows, classes)
    states = [run.status for run in group.all_runs]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    number = f"{len(states)} run{'s' * (len(states) > 1)}"
    shown = details(f"{number}: {counted}", listed, opened=len(states) <= FEW)
    return Section("runs", "Runs", shown)


def notes(group: Group) -> Section:
    """Repeat cautions and decisions of methods, and name methods that never acted."""
    said: dict[str, list[str]] = {}  # the rows and seeds by what was noted
    for name, row in group.runs.items():
        for seed, run in row.items():
            for remark in _remarks(run):
                who = f"{group.outcome.short[name].strip()}, seed {seed}"
                said.setdefault(remark, []).append(who)
    if not said:
        return Section("notes", "Notes", paragraph("Nothing was noted, and every method acted."))
    items = [
        join((remark, " ", element("span", f"({'; '.join(who)})", class_="note")))
        for remark, who in said.items()
    ]
    return Section("notes", "Notes", bullets(items))


def configuration(group: Group) -> Section:
    """Show the settings, what differs from the defaults first, and the commands."""
    outcome, usual = group.outcome, defaults()
    parts = []
    if group.whole:
        parts.append(
            _command("The command that repeats this comparison", repeat_comparison(outcome))
        )
    commands = [
        _command(f"{outcome.short[name].strip()}, seed {seed}", repeat_run(run.config))
        for name, row in group.runs.items()
        for seed, run in row.items()
        if run.config
    ]
    listed = join(commands)
    label = f"The command{'s' * (len(commands) > 1)} that repeat{'s' * (len(commands) == 1)}"
    label += " single runs, with all their rounds" if len(commands) > 1 else " this run"
    parts.append(details(label, listed, opened=len(commands) == 1) if commands else Html())
    own = {"methods", "seed", "out", "warm-start", "resume"}  # of single runs
    settings = {key: value for key, value in outcome.settings.flat().items() if key not in own}
    rows = [
        [key, _written(value), _written(usual[key])]
        for key, value in sorted(settings.items(), key=lambda item: item[1] == usual[item[0]])
    ]
    changed = [
        None if value == usual[key] else "changed"
        for key, value in sorted(settings.items(), key=lambda item: item[1] == usual[item[0]])
    ]
    caption = "Settings of all runs, those that differ from the defaults first"
    parts.append(
        details("Resolved settings", table(caption, ("Setting", "Value", "Default"), rows, changed))
    )
    parts += _versions(group.all_runs)
    return Section("configuration", "Configuration", join(parts))


def _cells(run: ReportedRun) -> list[object]:
    facts = run.facts
    scores = ["-" if facts.get(name) is None else f"{100 * facts[name]:.2f}" for name in SCORES]
    sent = [f"{facts.get(name, 0) / 1e6:.1f}" for name in ("bytes_up", "bytes_down")]
    reason = f": {run.reason}" if run.reason else ""
    state = element("span", f"{run.status}{reason}", class_=f"state {run.status}")
    rounds = f"{facts.get('rounds', 0)} of {run.config.get('rounds', '?')}"
    return [state, rounds, *scores, *sent, element("code", run.folder.name)]


def _remarks(run: ReportedRun) -> Iterable[str]:
    facts = run.facts
    yield from (f"{name} never acted: {why}" for name, why in facts.get("idle", {}).items())
    yield from facts.get("notes", [])
    refused = [
        f"round {line['round']}: {refusal}"
        for line in run.rounds
        for refusal in line["refused"]
        if line.get("refused")
    ]
    yield from refused


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
