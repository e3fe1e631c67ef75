"""Starts Flower's SuperNode so that processes of ours answer its messages.

By itself, a SuperNode runs whatever code a run brings, starts a new Python per message, and looks
for messages every three seconds. Here Flower's own program only talks to the SuperLink
(`--isolation process`), and a process of ours takes the tasks from it (tasks.py), which is started
anew if it ends (connection.py). It runs no code but its own, unless told otherwise.
"""

import argparse
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from fedmirage.common.errors import FedmirageError
from fedmirage.common.flower import WAITING
from fedmirage.node.encryption import require_same_encryption
from fedmirage.runtimes.bundle import digest, own_code
from fedmirage.runtimes.interrupts import INTERRUPTIONS
from fedmirage.runtimes.processes import environment

ADDRESS = "127.0.0.1:9094"  # Flower's default listens on every interface
# Each option, its values with the default first, and the variable that changes the default.
OPTIONS = {
    "code": (("own", "any"), None),
    "tasks": (("forked", "fresh"), "FEDMIRAGE_TASKS"),
    "waiting": (("adaptive", "flower"), WAITING),
}


@dataclass(frozen=True)
class Way:
    """How a SuperNode answers messages, and the arguments that are for Flower's program."""

    code: str  # own: only what is installed here; any: what a run brings
    tasks: str  # forked: from a process that has torch loaded; fresh: a new Python per message
    waiting: str  # adaptive: short while messages come and go; flower: always the same
    address: str  # where tasks are handed over
    rest: list[str]

    @property
    def flowers_own(self) -> bool:
        """Whether nothing of ours is asked for."""
        return (self.code, self.tasks, self.waiting) == ("any", "fresh", "flower")


def start(arguments: list[str]) -> None:
    """Become the SuperNode; what takes its tasks is started by it, and ends with it."""
    if forgets(arguments):
        return
    way = read_arguments(arguments)
    program = Path(sys.executable).with_name("flower-supernode")
    if not program.exists():
        raise FedmirageError(f"{program} does not exist; install Flower beside fedmirage")
    require_same_encryption(way.rest)
    fixed = ["--clientappio-api-address", way.address]
    if way.code == "own":
        print(f"This node runs its own code only, {digest(own_code())}", flush=True)
    if way.flowers_own:
        os.execv(program, [str(program), *way.rest, *fixed])
    ours = [sys.executable, "-P", "-m", "fedmirage.node.connection"]
    ours += [way.code, way.tasks, way.waiting, way.address]
    fixed += ["--isolation", "process"]
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)  # until the node heeds them
    os.execve(sys.executable, [*ours, *way.rest, *fixed], environment())


def forgets(arguments: list[str]) -> bool:
    """Forget which rounds of the run in --forget this node has answered, if that is asked for."""
    from flwr.common.config import parse_config_args

    from fedmirage.client.secagg.notes import forget
    from fedmirage.common.memory import flower_home

    parser = argparse.ArgumentParser(add_help=False)
    for name in ("--forget", "--node-config"):
        parser.add_argument(name)
    known, _ = parser.parse_known_args(arguments)
    if known.forget is None:
        return False
    settings = parse_config_args([known.node_config] if known.node_config else None)
    memory = Path(str(settings.get("memory") or flower_home() / "fedmirage" / "memory"))
    if not (count := forget(memory, known.forget)):
        raise FedmirageError(
            f"--forget {known.forget}: {memory} notes no round of this run; add --node-config if"
            " the node has a memory folder of its own"
        )
    print(f"This node forgets that it has answered {count} rounds of run {known.forget}.")
    return True


def read_arguments(arguments: list[str]) -> Way:
    """Find what is meant for us among the arguments; refuse what would change the isolation."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--clientappio-api-address", default=ADDRESS)
    for fixed in ("--isolation", "--appio-ssl-certfile", "--superexec-auth-secret-file"):
        parser.add_argument(fixed)
    for option, (values, variable) in OPTIONS.items():
        default = os.environ.get(variable, values[0]) if variable else values[0]
        parser.add_argument(f"--{option}", default=default)
    try:
        known, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise FedmirageError(f"{error}; flower-supernode --help lists all arguments") from None
    for option, (values, _) in OPTIONS.items():
        if (given := getattr(known, option)) not in values:
            raise FedmirageError(f"--{option} is {given!r}; write {' or '.join(values)}")
    for fixed in ("isolation", "appio_ssl_certfile", "superexec_auth_secret_file"):
        if getattr(known, fixed) is not None:
            raise FedmirageError(
                f"--{fixed.replace('_', '-')} cannot be set: fedmirage supernode decides itself how"
                " tasks are run; leave it out, or use flower-supernode, which runs any code"
            )
    return Way(known.code, known.tasks, known.waiting, known.clientappio_api_address, rest)


if __name__ == "__main__":
    try:
        start(sys.argv[1:])
    except FedmirageError as error:
        sys.exit(f"error: {error}")
