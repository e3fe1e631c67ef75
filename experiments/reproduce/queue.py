"""A queue of runs: one TOML file, done at low priority, continued after any interruption.

    out = "runs/queue"            # where the runs are; each is OUT/NAME-sSEED

    [[job]]
    name = "fedavg"
    seeds = [0, 1, 2]
    preset = "fedcog-fmnist-niid2"
    settings = { methods = "fedavg", diagnostics = true }

    [[job]]
    name = "step"
    seeds = [0, 1, 2]
    preset = "fedcog-fmnist-niid2"
    settings = { methods = "fedavg", lr = 0.002 }
    parent = "fedavg@50"          # starts warm from that job's run with the same seed

    [[job]]
    name = "cell"
    cell = { table = "fedcog/table1", row = "fedcog", column = "fmnist-niid2" }

The state of a queue is that of its runs, so that nothing is lost with the process that does it.
"""

import json
import os
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from rich import box
from rich.console import Console
from rich.table import Table as Shown

from common.errors import ConfigurationError, DataError
from common.settings.config import RunConfig, configure
from common.settings.language import nearest
from experiments.comparison.plan import Job
from experiments.comparison.records import find_summary, is_finished, read_record
from experiments.comparison.rows import Row
from experiments.comparison.runs import carry_out, share_cores
from experiments.reproduce.cells import Scale, choose_cells
from experiments.reproduce.checks import Written, complaints
from experiments.reproduce.jobs import share_all
from experiments.reproduce.tables import read_table
from experiments.reproduce.times import say_time
from experiments.settings import place, read_preset

FAILED = "failed.json"  # why runs failed, by their names
LOWEST = 19  # the priority at which everything else comes first
DECIDED = {"seed", "out", "resume", "warm-start", "keep-models"}  # settings that a job cannot make


class CellOf(Written):
    """A cell of a table as a job."""

    table: str
    row: str
    column: str
    scale: Scale = "paper"


class QueueJob(Written):
    """A job: settings, or a cell, with its seeds."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seeds: tuple[int, ...] = (0,)
    preset: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    cell: CellOf | None = None
    parent: str = Field("", pattern=r"^$|^[^@]+@[1-9][0-9]*$")


class Queue(Written):
    """What a queue file holds."""

    out: str = ""
    job: tuple[QueueJob, ...]


def read_queue(path: Path) -> tuple[Path, list[Job]]:
    """Read a queue and make its runs; everything that is wrong with it is refused at once."""
    try:
        queue = Queue.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise ConfigurationError([f"{path}: {text}" for text in complaints(error)]) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError([f"queue: {path} cannot be read as TOML: {error}"]) from None
    folder = Path(queue.out or Path("runs", path.stem)).expanduser().absolute()
    configs, problems = configure_all(queue.job)
    problems += check_parents(queue.job, configs)
    if problems:
        raise ConfigurationError([f"{path}: {problem}" for problem in problems])
    parents = {job.parent.partition("@")[0] for job in queue.job if job.parent}
    jobs = [
        make_run(job, configs[job.name], seed, folder, job.name in parents)
        for job in queue.job
        for seed in job.seeds
    ]
    alone = [job for job in jobs if job.parent is None]
    shared = {job.folder: job for job in share_all(alone)}
    return folder, [shared.get(job.folder, job) for job in jobs]


def configure_all(jobs: Sequence[QueueJob]) -> tuple[dict[str, RunConfig], list[str]]:
    """Make the settings of all jobs, and list what is wrong with them."""
    configs: dict[str, RunConfig] = {}
    names = [job.name for job in jobs]
    problems = [
        f"job {name}: two jobs have this name; rename one"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    for job in jobs:
        if len(set(job.seeds)) < len(job.seeds) or not job.seeds:
            problems.append(f"job {job.name}: seeds={list(job.seeds)}: write different seeds")
        if job.cell is not None and job.preset:
            problems.append(f"job {job.name}: preset and cell are two sources; write one")
        decided = sorted(DECIDED & job.settings.keys())
        problems += [f"job {job.name}: the queue decides {key}; drop it" for key in decided]
        try:
            configs[job.name] = configure_job(job)
        except ConfigurationError as error:
            problems += [f"job {job.name}: {problem}" for problem in error.problems]
    return configs, problems


def configure_job(job: QueueJob) -> RunConfig:
    """Make the settings of a job from its cell, or its preset and settings; the latter win."""
    own = {key: value for key, value in job.settings.items() if key not in DECIDED}
    if job.cell is None:
        return configure(read_preset(job.preset) if job.preset else {}, own)
    (cell,) = choose_cells(read_table(job.cell.table), [job.cell.row], [job.cell.column])
    if cell.missing:
        raise ConfigurationError([f"{cell} cannot be run: {cell.missing}"])
    return cell.configure(job.cell.scale, own)


def check_parents(jobs: Sequence[QueueJob], configs: Mapping[str, RunConfig]) -> list[str]:
    """List what is wrong with the jobs from which others begin."""
    known, problems = {job.name: job for job in jobs}, []
    for job in (job for job in jobs if job.parent):
        name, _, taken = job.parent.partition("@")
        where = f"job {job.name}: parent={job.parent!r}"
        if name not in known or name == job.name:
            others = [one for one in known if one != job.name]
            problems.append(f"{where}: no other job has this name{nearest(name, others)}")
            continue
        if lacking := sorted(set(job.seeds) - set(known[name].seeds)):
            problems.append(f"{where}: that job has no seed {', '.join(map(str, lacking))}")
        limits = [configs[one].rounds for one in (name, job.name) if one in configs]
        if limits and int(taken) > min(limits):
            problems.append(f"{where}: one of the two ends after round {min(limits)}")
    return problems


def make_run(job: QueueJob, config: RunConfig, seed: int, folder: Path, is_parent: bool) -> Job:
    """Make the run of a job with one seed."""
    own: dict[str, Any] = {"seed": seed, "out": str(folder / f"{job.name}-s{seed}")}
    own["server-threads"] = config.server_threads or 1  # several runs share the machine
    own["keep-models"] = "all" if is_parent else config.keep_models
    if not job.parent:
        return Job(Row(config.methods), place(configure(config.flat(), own)))
    name, _, taken = job.parent.partition("@")
    parent = folder / f"{name}-s{seed}"
    own["warm-start"] = f"{parent}@{taken}"
    return Job(Row(config.methods), place(configure(config.flat(), own)), parent, True)


def run_queue(path: Path, given: Mapping[str, Any], console: Console) -> bool:
    """Do what is left of a queue, and show how it ended; return whether nothing failed."""
    folder, jobs = read_queue(path)
    os.nice(LOWEST)
    folder.mkdir(parents=True, exist_ok=True)
    means = share_cores(
        jobs[0].config, given["runtime"], given["actors"], len(jobs), given["verbose"]
    )
    console.print(show_state(jobs, means.at_once, {}))
    failed = carry_out(jobs, means, folder, console)
    reasons = {one.name: reason for one, reason in failed.items()}
    draft = folder / f".{FAILED}"
    draft.write_text(json.dumps(reasons, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, folder / FAILED)
    console.print(show_state(jobs, means.at_once, reasons))
    return not failed


def show_queue(path: Path, console: Console) -> None:
    """Show how far a queue is, and how long the rest will take, without running anything."""
    folder, jobs = read_queue(path)
    at_once = share_cores(jobs[0].config, "inprocess", 0, len(jobs), False).at_once
    reasons: dict[str, str] = {}
    if (folder / FAILED).exists():
        reasons = json.loads((folder / FAILED).read_text(encoding="utf-8"))
    console.print(show_state(jobs, at_once, reasons))


def show_state(jobs: Sequence[Job], at_once: int, failed: Mapping[str, str]) -> Shown:
    """Lay out all runs: how far each is, what a round took, and what is left."""
    seconds = {job.folder: measured(job.folder) for job in jobs}
    left = {job.folder: time_left(job, jobs, seconds) for job in jobs}
    known = [value for value in left.values() if value is not None]
    total = say_time(sum(known) / at_once) if known else "unknown, as no round is done"
    if len(known) < len(jobs):
        total += f" and {len(jobs) - len(known)} runs of unknown length" if known else ""
    done = sum(progress(job) == job.config.rounds for job in jobs)
    title = f"{done} of {len(jobs)} runs finished; left: {total}, {at_once} at a time"
    shown = Shown(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("run", no_wrap=True)
    for name in ("rounds", "s per round", "left"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("state")
    for job in jobs:
        rate, rest = seconds[job.folder], left[job.folder]
        shown.add_row(
            str(job),
            f"{progress(job)}/{job.config.rounds}",
            "-" if rate is None else f"{rate:.1f}",
            "-" if rest is None else say_time(rest),
            state(job, failed),
        )
    return shown


def state(job: Job, failed: Mapping[str, str]) -> str:
    """Say in words how a run stands."""
    try:
        if is_finished(job.folder, job.config.rounds):
            return "finished"
        if job.folder.name in failed:
            return f"failed: {failed[job.folder.name]}"
        summary = find_summary(job.folder)
        if summary.get("status") == "failed":
            return f"failed: {summary.get('reason', 'no reason is known')}"
        return "begun" if read_record(job.folder) else "waiting"
    except DataError as error:
        return f"failed: {error}"


def progress(job: Job) -> int:
    """Return the last round that a run has done or taken over."""
    begun = job.config.rounds - job.rounds
    return max([begun, *(int(line["round"]) for line in own_rounds(job.folder))])


def own_rounds(folder: Path) -> list[dict[str, Any]]:
    """Read the rounds that a run did itself; a damaged file has none."""
    try:
        return [line for line in read_record(folder) if line["kind"] == "round"]
    except DataError:
        return []


def measured(folder: Path) -> float | None:
    """Return the seconds of a round so far, on average; None before the first."""
    seconds = [line["seconds"]["round"] for line in own_rounds(folder)]
    return statistics.fmean(seconds) if seconds else None


def time_left(job: Job, jobs: Sequence[Job], seconds: Mapping[Path, float | None]) -> float | None:
    """Estimate the seconds that are left of a run: by itself, by its methods, or by all others."""
    rounds = job.config.rounds - progress(job)
    same = [seconds[one.folder] for one in jobs if one.row == job.row]
    for rates in ([seconds[job.folder]], same, list(seconds.values())):
        found = [rate for rate in rates if rate is not None]
        if found or not rounds:
            return rounds * statistics.fmean(found) if found else 0.0
    return None
