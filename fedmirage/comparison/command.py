"""`fedmirage compare`: runs methods against each other, or shows a comparison that there is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.errors import collect, refuse
from fedmirage.comparison.advice import advise
from fedmirage.comparison.export import WRITERS, write_files
from fedmirage.comparison.folders import lay_out_runs
from fedmirage.comparison.outcome import FILE, Outcome, read_outcome, record
from fedmirage.comparison.plan import QUESTION, Plan, make_plan
from fedmirage.comparison.rows import FEDAVG, GLOBAL, check_score, make_question
from fedmirage.comparison.runs import Means, carry_out, check_runs, choose_means
from fedmirage.comparison.scores import choose
from fedmirage.comparison.table import show_outcome
from fedmirage.launch import find_cluster
from fedmirage.runtimes.observers import Observers
from fedmirage.server.record.folder import make_folder
from fedmirage.settings.layers import report_together
from fedmirage.show.words import say


def run_comparison(
    plan: Plan,
    console: Console,
    runtime: str,
    actors: int,
    verbose: bool,
    observers: Observers | None = None,
    ray_address: str | None = None,
) -> Outcome:
    """Do all runs of a plan, or what is left of them, and return what they found."""
    find_cluster(runtime, ray_address)  # what is wrong with it is said first
    jobs, trials = plan.runs({}), plan.trials() if len(plan.choices) > 1 else []
    make_folder(plan.folder)
    check_runs(jobs, plan.folder)
    means = choose_means(trials or jobs, plan.folder, runtime, actors, verbose, ray_address)
    describe_plan(plan, means, console)
    observers = observers or Observers()
    with observers:
        if trials:
            done = {job.folder for job in trials}
            later = [job for job in jobs if job.folder not in done]
            observers.add(done)
            carry_out(trials, means, plan.folder, console, later)
            jobs = plan.runs(choose(trials))
        observers.add(job.folder for job in jobs)
        record(plan, jobs, carry_out(jobs, means, plan.folder, console))
    return read_outcome(plan.folder)


def describe_plan(plan: Plan, means: Means, console: Console) -> None:
    """Print what is compared, on what, and what is odd about it."""
    base = plan.base
    seeds = f"{len(plan.seeds)} seed{'s' * (len(plan.seeds) > 1)}"
    say(console, f"{len(plan.rows)} methods lines{_describe_choices(plan)}, {seeds}, {means}")
    clients = f"{base.clients} clients, {base.rounds} rounds, {base.model}"
    say(console, f"on {base.dataset}, {base.partition}, {clients}")
    alone = replace(plan, share=False).runs({})  # rounds that are shared are no reason for a note
    for caution in dict.fromkeys(caution for job in alone for caution in job.config.cautions):
        console.print(f"note: {caution}", style="yellow", highlight=False, markup=False)


def present(outcome: Outcome, console: Console, files: Mapping[str, Path | None]) -> None:
    """Show the answer, write the files that are asked for, and say where the results are."""
    console.print(show_outcome(outcome))
    for kind, path in write_files(WRITERS, outcome, files).items():
        say(console, f"{kind}: {path}")
    say(console, f"results: {outcome.folder}")


def suggest(outcome: Outcome, console: Console) -> None:
    """Print which line to run next, and why."""
    say(console, f"next: {advise(outcome)}", "bold")


def show_folders(
    folders: list[Path],
    drawing: Path | None,
    files: Mapping[str, Path | None],
    flags: Sequence[str],
    console: Console,
    score: str | None = None,
) -> None:
    """Show a comparison again, by its own score or another one, or compare the runs in folders.

    Flags that would start runs are refused.
    """
    whole = [folder for folder in folders if (folder / FILE).exists()]
    problems = [
        f"{flag} would run something, but folders are only shown; drop it" for flag in flags
    ]
    problems += [
        f"{folder} holds a whole comparison; show it alone" for folder in whole if len(folders) > 1
    ]
    problems += [
        f"--{kind} is for a whole comparison; give its folder alone"
        for kind, value in {**files, "score": score}.items()
        if value is not None and not whole
    ]
    with collect(problems):
        check_score(score or GLOBAL)
    refuse(problems)
    outcomes = [read_outcome(folder.absolute(), score) for folder in whole]
    for outcome in outcomes:
        present(outcome, console, files)
        folders = outcome.run_folders
    if not outcomes:
        console.print(lay_out_runs(folders))
    question = outcomes[0].question if outcomes else QUESTION
    if drawing is not None:
        from fedmirage.comparison.curves import draw_runs  # here, because it loads matplotlib

        say(console, f"picture: {draw_runs(folders, drawing, question)}")
    for outcome in outcomes:
        suggest(outcome, console)


def plan_comparison(
    layers: Sequence[Mapping[str, Any]],
    flags: Mapping[str, Any],
    methods: Sequence[str],
    seeds: str | None,
    controls: bool,
    tune: int,
    schedules: Sequence[str],
    share: bool,
    title: str = "",
    baseline: str = FEDAVG,
    score: str = GLOBAL,
) -> Plan:
    """Plan what was typed; a comparison has seeds, and continues without being told to."""
    problems: list[str] = []
    if "resume" in flags:
        problems.append(
            f"resume={flags['resume']!r}: a comparison continues with the same command and the same"
            " --out; drop resume"
        )
    if "seed" in flags and seeds is not None:
        problems.append(f"seed={flags['seed']} and seeds={seeds!r}: write seeds alone")
    given = {key: value for key, value in flags.items() if key not in ("resume", "seed")}
    chosen = seeds if seeds is not None else str(flags.get("seed", "0"))
    question = make_question(title, baseline, score, problems)
    with report_together(problems):
        choices = (controls, tune, schedules, share)
        return make_plan([*layers, given], methods, chosen, *choices, question)


def _describe_choices(plan: Plan) -> str:
    """Say what every line may try, if there is anything to choose."""
    rates = dict.fromkeys(f"{choice.lr:g}" for choice in plan.choices)
    schedules = dict.fromkeys(choice.schedule for choice in plan.choices)
    found = [f"learning rates {', '.join(rates)}"] if len(rates) > 1 else []
    found += [f"schedules {'; '.join(schedules)}"] if len(schedules) > 1 else []
    return f" with {' and '.join(found)}" if found else ""
