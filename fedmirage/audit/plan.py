"""Plans an audit: one run for each methods line and attack, all refused together or not at all."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmirage.audit.attack import Attack
from fedmirage.audit.attacks import ATTACKS, is_every, read_attacks
from fedmirage.common.errors import ConfigurationError, collect, refuse
from fedmirage.common.method import parts_of
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.server.record.results import FILE
from fedmirage.settings.layers import settle


@dataclass(frozen=True)
class AuditJob:
    """One attack on a run of its own."""

    attack: Attack
    config: RunConfig

    @property
    def folder(self) -> Path:
        """Where the run and what the attack finds are written."""
        return Path(self.config.out)


@dataclass(frozen=True)
class AuditPlan:
    """All jobs of an audit, and what is left out of it."""

    folder: Path
    jobs: Sequence[AuditJob]
    notes: Sequence[str] = ()


def make_plan(
    layers: Sequence[Mapping[str, Any]],
    flags: Mapping[str, Any],
    lines: Sequence[str],
    line: str,
    folder: Path,
) -> AuditPlan:
    """Settle every run and ask every attack; raise all problems at once, before any round.

    An attack that was not named, and cannot be used on a methods line, is left out with a note.
    """
    problems: list[str] = []
    attacks: list[Attack] = []
    with collect(problems):
        attacks = read_attacks(line)
    named = not is_every(line)
    jobs, notes, places = list[AuditJob](), list[str](), set[str]()
    for methods in dict.fromkeys(lines):
        left = len(jobs)
        for attack in attacks or [ATTACKS["inversion"]()]:  # whose settings are checked even so
            place = name_folder(methods, attack.name, places)
            usual = {"out": str(folder / place), "methods": methods}
            try:
                found = settle([attack.settings, *map(dict, layers)], {**flags, **usual})
            except ConfigurationError as error:
                problems += [*error.problems, *check_line(methods)]
                continue
            job = AuditJob(attack, found)
            objections = check_job(job)
            if objections and not named:
                notes += [f"{methods}: {text}" for text in objections]
                continue
            problems += objections
            jobs.append(job)
        if not named and len(jobs) == left and not problems:
            problems += notes
    refuse(problems)
    return AuditPlan(folder, jobs, list(dict.fromkeys(notes)))


def check_job(job: AuditJob) -> list[str]:
    """Say in sentences what is wrong with a job, first with the settings and then with the data."""
    from fedmirage.common.data.loading import load  # here, because --help must not load NumPy
    from fedmirage.server.start import check_run

    config, attack = job.config, job.attack
    problems = check_message(config) or attack.check(config)
    if (job.folder / FILE).exists():
        problems.append(f"{job.folder} holds the results of another run; choose another --out")
    with collect(problems):
        check_run(config, job.folder)
        problems += attack.check_data(
            config, load(config.dataset, config.data_dir or None, config.download)
        )
    return problems


def check_line(methods: str) -> list[str]:
    """Say why a methods line gives nothing to attack, where other settings are refused."""
    try:
        return check_message(configure({"methods": methods}))
    except ConfigurationError:
        return []  # the settings were refused for it already


def check_message(config: RunConfig) -> list[str]:
    """Say why there is nothing to attack; nothing if there is."""
    problems = []
    if not parts_of(config.method_list).sends:
        problems.append(
            f"methods={config.methods!r} sends nothing, so there is nothing to audit; leave it out"
        )
    if not config.server_reads_data:
        problems.append(
            "server-data='none': an audit compares with the clients' own data, which it must read"
            " here; leave it out"
        )
    if config.resume or config.warm_start:
        key = "resume" if config.resume else "warm-start"
        problems.append(f"{key}: an audit begins its runs itself; leave it out")
    return problems


def name_folder(methods: str, attack: str, taken: set[str]) -> str:
    """Name the folder of a run after its methods and its attack, and remember the name."""
    plain = re.sub(r"[^a-z0-9]+", "-", methods.lower()).strip("-")[:60] or "run"
    name, number = f"{plain}-{attack}", 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}-{attack}"
    taken.add(name)
    return name
