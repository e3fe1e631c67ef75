"""What `fedmirage reproduce` was asked to do: one thing at a time.

One of them lists the runs of a queue that are not recorded, with their commands and costs.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.reproduce.command import reproduce, show_tables
from experiments.reproduce.cost import Clock, estimate
from experiments.reproduce.pages import README, replace_block, rewrite_pages
from experiments.reproduce.queue import Queue, QueueJob, read_queue, run_queue, show_queue
from experiments.reproduce.recording import has_record
from experiments.reproduce.records import record_run
from fedmirage.commands.flags import reproduce_flags
from fedmirage.common.errors import ConfigurationError, refuse
from fedmirage.common.settings.config import key_of
from fedmirage.comparison.plan import Job
from fedmirage.show.words import say, say_time

TASKS = ("table", "queue", "record", "tables")
FOR_A_TABLE = ["row", "column", "scale", "seeds", "estimate", "csv", "json", "out"]
FOR_A_TABLE += ["data_dir", "download"]


def dispatch(given: Mapping[str, Any], console: Console) -> bool:
    """Do what was asked; return whether all went well."""
    check_flags(given)
    if given["queue"]:
        if given["status"]:
            show_queue(given["queue"], console)
            return True
        if given["estimate"]:
            say(console, f"made anew: {write_open(given['queue'], Clock())}")
            return True
        return run_queue(given["queue"], given, console)
    if given["record"]:
        source, name = given["record"]
        path = record_run(source, name, given["results"])
        say(console, f"recorded: {path}")
    elif given["tables"]:
        for path in rewrite_pages(given["results"]):
            say(console, f"made anew: {path}")
    elif given["table"]:
        answers = reproduce(given["table"], given, console)
        return not any(answer.failed for answer in answers)
    else:
        show_tables(console)
    return True


def check_flags(given: Mapping[str, Any]) -> None:
    """Refuse flags that do not go together, all at once."""
    asked = [name for name in TASKS if given[name]]
    problems = []
    if len(asked) > 1:
        names = " and ".join(name if name == "table" else f"--{name}" for name in asked)
        problems.append(f"{names} are different things; ask for one at a time")
    usual = {name: default for name, (_, default) in reproduce_flags().items()}
    set_by_hand = [name for name in FOR_A_TABLE if given[name] and given[name] != usual[name]]
    if "queue" in asked:
        set_by_hand = [name for name in set_by_hand if name != "estimate"]
    extra = [] if "table" in asked else set_by_hand
    problems += [
        f"--{key_of(name)} is for a table; write which, e.g. fedcog/table1" for name in extra
    ]
    if given["status"] and not given["queue"]:
        problems.append("--status shows a queue; write its file with --queue FILE")
    refuse(problems)


HEADS = ("Job", "Seeds", "Command", "Estimate for one core, each")


def write_open(path: Path, clock: Clock) -> Path:
    """Write the list into README.md of the queue's results, and return its path."""
    _, jobs, results = read_queue(path)
    if results is None:
        raise ConfigurationError([f"{path}: it has no results, so nothing of it is ever recorded"])
    by_name = {job.folder.name: job for job in jobs}
    lines = [HEADS, ("---",) * len(HEADS)]
    for one in Queue.read(path, "queue").job:
        left = find_left(one, by_name, results)
        if left:
            job = by_name[f"{one.name}-s{left[0]}"]
            begun = job.config.rounds - job.rounds
            cost = say_time(estimate(job.config, clock.step(job.config), begun))
            lines.append((one.name, ", ".join(map(str, left)), f"`{command_of(one)}`", cost))
    readme = results / README
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    readme.write_text(replace_block(readme, "open", text), encoding="utf-8")
    return readme


def find_left(job: QueueJob, by_name: Mapping[str, Job], results: Path) -> list[int]:
    """List the seeds of a job that are not recorded."""
    return [seed for seed in job.seeds if not has_record(by_name[f"{job.name}-s{seed}"], results)]


def command_of(job: QueueJob) -> str:
    """Write the command of a job without its seed; its warm start is that of the queue."""
    if job.cell is not None:
        words = ["reproduce", job.cell.table, "--row", job.cell.row, "--column", job.cell.column]
        words += ["--scale", job.cell.scale]
    else:
        words = ["run", *(["--preset", job.preset] if job.preset else [])]
        for key, value in job.settings.items():
            words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    words += ["--warm-start", f"runs/{job.parent}"] if job.parent else []
    return " ".join(("fedmirage", *map(quote, words)))


def quote(word: str) -> str:
    """Quote a word with the marks that a methods line does not need itself."""
    return f'"{word}"' if shlex.quote(word) != word else word
