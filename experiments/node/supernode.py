"""Starts Flower's SuperNode so that it runs the code that is installed here, and no other.

By itself, a SuperNode runs whatever code a run brings. Here Flower's own program only talks to the
SuperLink (`--isolation process`), and a process of ours takes the tasks from it.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from common.errors import FedmirageError
from experiments.bundle import digest, own_code
from experiments.runtimes.processes import environment

ADDRESS = "127.0.0.1:9094"  # Flower's default listens on every interface


def start(arguments: list[str]) -> None:
    """Start what takes the tasks, and become the SuperNode; both end together."""
    address = task_address(arguments)
    program = Path(sys.executable).with_name("flower-supernode")
    if not program.exists():
        raise FedmirageError(f"{program} does not exist; install Flower beside fedmirage")
    tasks = [sys.executable, "-P", "-m", "experiments.node.tasks", address, str(os.getpid())]
    print(f"This node runs its own code only, {digest(own_code())}", flush=True)
    subprocess.Popen(tasks, env=environment(), stdin=subprocess.DEVNULL)
    fixed = ["--isolation", "process", "--clientappio-api-address", address]
    os.execv(program, [str(program), *arguments, *fixed])


def task_address(arguments: list[str]) -> str:
    """Find the address for tasks among the arguments; refuse what would change the isolation."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--clientappio-api-address", default=ADDRESS)
    for fixed in ("--isolation", "--appio-ssl-certfile", "--superexec-auth-secret-file"):
        parser.add_argument(fixed)
    try:
        known, _ = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise FedmirageError(f"{error}; flower-supernode --help lists all arguments") from None
    for fixed in ("isolation", "appio_ssl_certfile", "superexec_auth_secret_file"):
        if getattr(known, fixed) is not None:
            raise FedmirageError(
                f"--{fixed.replace('_', '-')} cannot be set: fedmirage supernode decides itself how"
                " tasks are run; leave it out, or use flower-supernode, which runs any code"
            )
    return str(known.clientappio_api_address)
