"""Lists the runs of a queue that are not recorded, with their commands and what they would cost."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from experiments.reproduce.cost import Clock, estimate
from experiments.reproduce.pages import README, replace_block
from experiments.reproduce.queue import Queue, QueueJob, read_queue
from experiments.reproduce.recording import has_record
from fedmirage.common.errors import ConfigurationError
from fedmirage.comparison.plan import Job
from fedmirage.show.words import say_time

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
