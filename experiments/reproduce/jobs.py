"""The runs behind the cells of a table: each configuration once, however many cells it serves."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.reproduce.cells import Cell, Scale
from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.files.places import data_folder
from fedmirage.common.data.files.sources import locate
from fedmirage.common.errors import collect, refuse
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.settings.language import resolve_line
from fedmirage.comparison.plan import Job, make_slug, share_warm_up, shared_rounds
from fedmirage.comparison.rows import Row
from fedmirage.settings.layers import place

# Settings that change where and how a run is done and what it writes, but none of its numbers; the
# server's threads do so in the last digits, where a method trains on the server.
WITHOUT_EFFECT = {
    *("out", "warm-start", "resume", "data-dir", "download", "device", "keep-models"),
    *("save-images", "target", "node-timeout", "round-timeout", "retries", "min-replies"),
    "server-threads",
}
MORE = ("diagnostics", "local-evaluation")  # a run that has them serves cells that do not ask


@dataclass(frozen=True)
class ChosenCells:
    """The chosen cells, the runs that they need, and the cells that lack their data."""

    folders: dict[Cell, list[Path]]  # one folder per seed
    jobs: list[Job]
    without_data: dict[Cell, str]


def make_work(
    cells: Sequence[Cell], scale: Scale, seeds: Sequence[int], folder: Path, more: Mapping[str, Any]
) -> ChosenCells:
    """Make the runs of all cells whose data are here; wrong settings are refused all at once."""
    jobs: dict[Path, Job] = {}
    folders: dict[Cell, list[Path]] = {}
    without: dict[Cell, str] = {}
    problems: list[str] = []
    for cell in (cell for cell in cells if not cell.missing):
        with collect(problems, f"{cell}: "):
            config = cell.configure(scale, more)
            if not config.download and (lacking := find_lacking(config.dataset, config.data_dir)):
                without[cell] = lacking
                continue
            for seed in seeds:
                job = make_job(config, seed, folder)
                jobs.setdefault(job.folder, job)
                folders.setdefault(cell, []).append(job.folder)
    refuse(problems)
    return ChosenCells(folders, share_all(list(jobs.values())), without)


def make_job(config: RunConfig, seed: int, folder: Path) -> Job:
    """Make a run in a folder whose name tells its settings apart from all others."""
    name = f"{make_slug(config.methods)}-{digest(config)}-seed{seed}"
    own = {"seed": seed, "out": str(folder / name), "server-threads": config.server_threads or 1}
    return Job(Row(config.methods), place(configure(config.flat(), own)))


def share_all(jobs: Sequence[Job]) -> list[Job]:
    """Share FedAvg's first rounds among runs that differ in their methods alone."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        rest = {**job.config.flat(), "methods": "", "out": "", "keep-models": ""}
        groups.setdefault(json.dumps(rest), []).append(job)
    return [job for group in groups.values() for job in share_warm_up(group)]


def digest(config: RunConfig) -> str:
    """Make a short name for everything but the seed that decides the numbers of a run."""
    text = json.dumps(numbers_of(config.flat()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def numbers_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the settings that decide the numbers of a run, apart from its seed."""
    return {key: value for key, value in settings.items() if key not in WITHOUT_EFFECT | {"seed"}}


def find_lacking(line: str, data_dir: str) -> str:
    """Name the data sets of a line whose files are not on this machine; "" if all are."""
    folder = data_folder(data_dir or None)
    chosen = resolve_line(line, DATASETS, "dataset")
    return ", ".join(params.name for params in chosen if locate(params, folder) is None)


def is_recorded(config: RunConfig, recorded: Mapping[str, Any]) -> bool:
    """Whether a recorded run has the settings of a cell, also if it began with FedAvg's rounds."""
    wanted, has = numbers_of(config.flat()), numbers_of(recorded)
    if any(wanted.pop(key) and not has.get(key) for key in MORE):
        return False
    if has.get("eval-every") == 1:  # every round is scored, so that all cells find theirs
        wanted.pop("eval-every")
    if any(has.get(key, value) != value for key, value in wanted.items()):
        return False
    _, _, taken = str(recorded.get("warm-start", "")).rpartition("@")
    return not taken or int(taken) <= shared_rounds(config)
