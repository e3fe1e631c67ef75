"""Starts Flower's SuperNode so that processes of ours answer its messages.

By itself, a SuperNode runs whatever code a run brings, starts a new Python per message, and looks
for messages every three seconds. Here Flower's own program only talks to the SuperLink
(`--isolation process`), and a process of ours takes the tasks from it (tasks.py), which is started
anew if it ends (connection.py). It runs no code but its own, unless told otherwise.
"""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.errors import FedmirageError, refuse
from fedmirage.common.memory import find_memory
from fedmirage.node import checks
from fedmirage.node.checkup import examine
from fedmirage.node.findings import FAULT, OK, pick, show_findings
from fedmirage.node.log import VERBOSE
from fedmirage.runtimes.interrupts import INTERRUPTIONS
from fedmirage.runtimes.processes import environment
from fedmirage.show.words import write_command

TOLD = ("data", "the run's line")  # what a start says of the checks besides warnings
# The options of ours that take one of two values; the first is the default.
CHOICES = {
    "code": ("own", "any"),
    "tasks": ("forked", "fresh"),
    "waiting": ("adaptive", "flower"),
}


@dataclass(frozen=True)
class Way:
    """How a SuperNode reaches its SuperLink and answers messages."""

    superlink: str
    insecure: bool
    root_certificates: Path | None
    private_key: Path | None
    node_config: str
    code: str  # own: only what is installed here; any: what a run brings
    tasks: str  # forked: from a process that has torch loaded; fresh: a new Python per message
    waiting: str  # adaptive: short while messages come and go; flower: always the same
    address: str  # where tasks are handed over
    verbose: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)  # further options, which Flower reads

    @property
    def flowers_own(self) -> bool:
        """Whether nothing of ours is asked for."""
        return (self.code, self.tasks, self.waiting) == ("any", "fresh", "flower")

    @property
    def for_flower(self) -> list[str]:
        """The arguments for Flower's program."""
        given = {
            "superlink": self.superlink,
            "root-certificates": self.root_certificates,
            "auth-supernode-private-key": self.private_key,
            "node-config": self.node_config or None,
            "clientappio-api-address": self.address,
            **self.more,
        }
        pairs = [(f"--{name}", str(value)) for name, value in given.items() if value is not None]
        words = [word for pair in pairs for word in pair]
        return ["--insecure", *words] if self.insecure else words

    def find_problems(self) -> list[str]:
        """Say everything that is wrong with what it was given."""
        problems = [
            f"--{option} is {value!r}; write {' or '.join(values)}"
            for option, values in CHOICES.items()
            if (value := getattr(self, option)) not in values
        ]
        problems += checks.check_certificates(self.root_certificates, self.insecure)
        problems += checks.check_key(self.private_key, self.insecure)
        if self.code == "own":  # other apps have keys of their own
            problems += checks.check_node_config(self.node_config)
        return [*problems, *checks.check_address(self.address)]


def start(way: Way) -> None:
    """Become the SuperNode; what takes its tasks is started by it, and ends with it."""
    require_sound(way)
    program = Path(sys.executable).with_name("flower-supernode")
    if not program.exists():
        raise FedmirageError(f"{program} does not exist; install Flower beside fedmirage")
    if way.code == "own":
        from fedmirage.runtimes.bundle import digest, own_code, own_version

        code = f"fedmirage {own_version()}, {digest(own_code())}"
        print(f"This node runs its own code only, {code}", flush=True)
    command = write_command({}, ["flower-supernode", *way.for_flower])
    print(f"starts, with processes of its own for messages: {command}", flush=True)
    if way.flowers_own:
        os.execv(program, [str(program), *way.for_flower])
    ours = [sys.executable, "-P", "-m", "fedmirage.node.connection"]
    ours += [way.code, way.tasks, way.waiting, way.address, *way.for_flower]
    variables = environment() | ({VERBOSE: "1"} if way.verbose else {})
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)  # until the node heeds them
    os.execve(sys.executable, [*ours, "--isolation", "process"], variables)


def require_sound(way: Way) -> None:
    """Refuse everything that `--check` calls a fault; say what else it found about the data."""
    findings = examine(way)
    refuse([found.text for found in pick(findings, FAULT)])
    for found in findings:
        if found.state != OK or found.subject in TOLD:
            name = found.subject if found.state == OK else found.state
            print(f"{name}: {found.text}", flush=True)


def show_check(console: Console, way: Way) -> bool:
    """Print what `--check` finds; return whether the node would start."""
    findings = examine(way, with_device=True)
    show_findings(console, findings)
    return not pick(findings, FAULT)


def forget(run: str, node_config: str) -> int:
    """Forget which rounds of a run this node has answered; return how many there were."""
    from fedmirage.client.secagg.notes import forget as forget_rounds

    memory = find_memory(checks.read_node_config(node_config))
    if not (count := forget_rounds(memory, run)):
        raise FedmirageError(
            f"--forget {run}: {memory} notes no round of this run; add --node-config if the node"
            " has a memory folder of its own"
        )
    return count
