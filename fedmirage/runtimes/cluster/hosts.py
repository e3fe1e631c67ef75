"""Checks that every host of a cluster has the same code and the data of a run.

Each host is asked by a task of its own before anything starts, and every actor checks its host
again, because it may have joined later.
"""

import hashlib
import os
import platform
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fedmirage.common.data.loading import require_files
from fedmirage.common.errors import FedmirageError, list_problems, refuse
from fedmirage.common.own_code import hash_sources
from fedmirage.common.settings.config import RunConfig, validate
from fedmirage.runtimes.actors import find_cause
from fedmirage.runtimes.bundle import digest, own_code

ANSWER = 60.0  # seconds in which every host must have answered
SHORT = 15  # characters of a hash


@dataclass(frozen=True)
class Requirements:
    """What a host must have: the same code, and the data of these runs."""

    code: Mapping[str, str]
    sources: Mapping[str, str]  # hashes of somebody's own code
    runs: Sequence[Mapping[str, Any]]  # settings
    folder: str  # where the command was started, for relative paths

    @classmethod
    def of(cls, configs: Iterable[RunConfig]) -> "Requirements":
        """Find out what this host has, which all others must have, too."""
        runs = list(configs)
        own = dict.fromkeys(reference for config in runs for reference in config.own_code)
        return cls(describe_code(), hash_sources(own), [one.flat() for one in runs], os.getcwd())


def describe_code() -> dict[str, str]:
    """Return the versions that decide the numbers of a run, and a hash of this program."""
    runtimes = Path(__file__).parents[1]
    hashes = own_code() | {
        path.relative_to(runtimes).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in runtimes.rglob("*.py")
    }
    return {
        "Python": platform.python_version(),
        "torch": version("torch").partition("+")[0],  # a host without a GPU has another build
        "numpy": version("numpy"),
        "fedmirage": digest(hashes)[:SHORT],
    }


def find_faults(required: Requirements) -> list[str]:
    """List what this host lacks; each completes "host X has ..."."""
    enter(required.folder)
    own = describe_code()
    faults = [
        f"has {name} {own[name]}, and this command {wanted}; install the same on both"
        for name, wanted in required.code.items()
        if own[name] != wanted
    ]
    if faults:  # the settings may mean something else there
        return faults
    for settings in required.runs:
        try:
            config = validate(dict(settings))
            require_files(config.dataset, config.data_dir or None, config.download)
            for reference, found in hash_sources(config.own_code).items():
                if found != required.sources[reference]:
                    faults.append(f"has another {reference} than this host; copy it there")
        except FedmirageError as error:
            faults += [f"cannot use the run's data or code: {one}" for one in list_problems(error)]
    return list(dict.fromkeys(faults))


def enter(folder: str) -> None:
    """Let relative paths begin where the command was started, if this host has that folder."""
    if os.path.isdir(folder):
        os.chdir(folder)


def require_fit_hosts(hosts: Sequence[Mapping[str, Any]], required: Requirements) -> None:
    """Ask all hosts at once what they lack; refuse all of it, each with its host's name."""
    ask = ray.remote(make_question())
    asked = {}
    for host in hosts:
        place = NodeAffinitySchedulingStrategy(host["NodeID"], soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": place}
        asked[ask.options(**options).remote(vars(required))] = name_of(host)
    done, late = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER)
    problems = [
        f"host {asked[one]} has not answered within {ANSWER:.0f} s; see the logs of its Ray"
        for one in late
    ]
    for one in done:
        try:
            problems += [f"host {asked[one]} {fault}" for fault in ray.get(one)]
        except ray.exceptions.RayError as error:
            problems.append(f"host {asked[one]} did not answer: {find_cause(error)}")
    refuse(problems)


def make_question() -> Callable[[dict[str, Any]], list[str]]:
    """Make a function that Ray sends as it is, because fedmirage may be missing on a host."""

    def ask(required: dict[str, Any]) -> list[str]:
        try:
            from fedmirage.runtimes.cluster.hosts import Requirements, find_faults
        except ImportError as error:
            return [f"has no fedmirage like this one ({error}); install the same on both"]
        return find_faults(Requirements(**required))

    return ask


def name_of(host: Mapping[str, Any]) -> str:
    """Name a host as its users do, with its address if that says more."""
    name, address = str(host["NodeManagerHostname"]), str(host["NodeManagerAddress"])
    return name if name == address else f"{name} ({address})"


def own_name() -> str:
    """Name the host of this process."""
    address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return f"{socket.gethostname()} ({address})"
