"""A queue of runs: one TOML file, done at low priority, continued after any interruption.

    out = "runs/queue"            # where the runs are; each is OUT/NAME-sSEED
    results = "docs/results"      # where finished runs are recorded; recorded ones are not repeated

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
    parent = "fedavg@50"          # starts warm from the run, with the same seed, of that job above

    [[job]]
    name = "cell"
    cell = { table = "fedcog/table1", row = "fedcog", column = "fmnist-niid2" }

Every job has had its first seed before any has its second, so that a queue that is interrupted has
answered all questions once. Its state is that of its runs, so that nothing is lost with the process
that does it. A recorded run has no checkpoint: it is repeated if another one is to begin from it,
and so is a run that was begun without keeping its models.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, NonNegativeInt
from rich.console import Console

from experiments.reproduce import recording
from experiments.reproduce.jobs import Scale, choose_cells, share_all
from experiments.reproduce.recording import show_state
from experiments.reproduce.tables import Written, read_table
from fedmirage.commands.flags import PLACES
from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import ConfigurationError, collect, refuse
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.settings.language import nearest
from fedmirage.comparison.plan import Job
from fedmirage.comparison.rows import Row
from fedmirage.comparison.runs import carry_out, choose_means, share_cores
from fedmirage.runtimes.processes import undisturbed
from fedmirage.server.record.folder import make_folder
from fedmirage.settings.layers import place, read_preset
from fedmirage.show.words import say

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
    seeds: tuple[NonNegativeInt, ...] = (0,)
    preset: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    cell: CellOf | None = None
    parent: str = Field("", pattern=r"^$|^[^@]+@[1-9][0-9]*$")


class Queue(Written):
    """What a queue file holds."""

    out: str = ""
    results: str = ""
    job: tuple[QueueJob, ...] = Field(min_length=1)


class QueueRuns(NamedTuple):
    """All runs of a queue, in the order in which they are done."""

    folder: Path
    jobs: list[Job]
    results: Path | None  # where they are recorded; None records nothing


def read_queue(path: Path) -> QueueRuns:
    """Read a queue and make its runs; everything that is wrong with it is refused at once."""
    queue = Queue.read(path, "queue")
    folder = Path(queue.out or Path("runs", path.stem)).expanduser().absolute()
    configs, problems = configure_all(queue.job)
    problems += check_parents(queue.job, configs)
    results = Path(queue.results).expanduser().absolute() if queue.results else None
    if results is not None and not results.is_dir():
        problems.append(
            f"results={queue.results!r}: there is no such folder here; start the queue in the"
            " folder from which this path leads to it, or write another one"
        )
    refuse([f"{path}: {problem}" for problem in problems])
    parents = {job.parent.partition("@")[0] for job in queue.job if job.parent}
    jobs = [
        make_run(job, configs[job.name], job.seeds[turn], folder, job.name in parents)
        for turn in range(max(len(job.seeds) for job in queue.job))
        for job in queue.job
        if turn < len(job.seeds)
    ]
    alone = [job for job in jobs if job.parent is None]
    shared = {job.folder: job for job in share_all(alone)}
    return QueueRuns(folder, [shared.get(job.folder, job) for job in jobs], results)


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
        with collect(problems, f"job {job.name}: "):
            configs[job.name] = configure_job(job)
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
    """List what is wrong with the jobs from which others begin.

    Each stands above those that begin from it, so no jobs wait for each other.
    """
    known: dict[str, QueueJob] = {}
    problems = []
    for job in jobs:
        name, _, taken = job.parent.partition("@")
        where = f"job {job.name}: parent={job.parent!r}"
        if name in known:
            if lacking := sorted(set(job.seeds) - set(known[name].seeds)):
                problems.append(f"{where}: that job has no seed {', '.join(map(str, lacking))}")
            limits = [configs[one].rounds for one in (name, job.name) if one in configs]
            if limits and int(taken) > min(limits):
                problems.append(f"{where}: one of the two ends after round {min(limits)}")
        elif name:
            hint = nearest(name, known) if known else ""
            problems.append(f"{where}: no job above it has this name{hint}")
        known[job.name] = job
    return problems


def make_run(job: QueueJob, config: RunConfig, seed: int, folder: Path, is_parent: bool) -> Job:
    """Make the run of a job with one seed."""
    own: dict[str, Any] = {"seed": seed, "out": str(folder / f"{job.name}-s{seed}")}
    own["server-threads"] = config.server_threads or 1  # several runs share the machine
    own["keep-models"] = "all" if is_parent else config.keep_models
    name, _, taken = job.parent.partition("@")
    parent = folder / f"{name}-s{seed}" if name else None
    own |= {"warm-start": f"{parent}@{taken}"} if parent else {}
    return Job(Row(config.methods), place(configure(config.flat(), own)), parent, bool(parent))


def run_queue(path: Path, given: Mapping[str, Any], console: Console) -> bool:
    """Do what is left of a queue, and show how it ended; return whether nothing failed."""
    folder, jobs, results = read_queue(path)
    os.nice(LOWEST)
    make_folder(folder)
    while said := list(
        recording.set_aside_without_models(recording.leave_out_recorded(jobs, results))
    ):
        for sentence in said:
            say(console, sentence, "yellow")
    means = choose_means(jobs, folder, **{name: given[name] for name in PLACES})
    console.print(show_state(jobs, means.at_once, {}, recording.find_recorded(jobs, results)))
    try:
        failed = carry_out(recording.leave_out_recorded(jobs, results), means, folder, console)
    finally:
        with undisturbed():
            sentences = list(recording.record_finished(jobs, results))
        with contextlib.suppress(OSError):  # the terminal may be closed
            for sentence in sentences:
                say(console, sentence)
    reasons = {one.name: reason for one, reason in failed.items()}
    write_whole(folder / FAILED, json.dumps(reasons, indent=1).encode() + b"\n")
    console.print(show_state(jobs, means.at_once, reasons, recording.find_recorded(jobs, results)))
    return not failed


def show_queue(path: Path, console: Console) -> None:
    """Show how far a queue is, and how long the rest will take, without running anything."""
    folder, jobs, results = read_queue(path)
    at_once = share_cores(jobs[0].config, "inprocess", 0, len(jobs), False).at_once
    path = folder / FAILED
    reasons = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    console.print(show_state(jobs, at_once, reasons, recording.find_recorded(jobs, results)))
