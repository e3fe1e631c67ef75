"""Launches a run in one of the runtimes and shows its progress.

`launch` checks the folder, and `conduct` starts fedmirage/runtimes/child.py in a process of its
own (`attend`), which checks the settings against data and machine. With `inprocess` and
`simulation` the whole run takes place in that process. With `grpc` it ends after the checks, and
`deploy` (fedmirage/runtimes/grpc.py) starts Flower's processes. The progress bar reads
results.jsonl, which the server writes.
"""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.errors import TRACEBACK, ConfigurationError, FedmirageError, collect, refuse
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.breakpoints import copy_terminal
from fedmirage.runtimes.cluster.join import AUTO, KEY, check_address
from fedmirage.runtimes.interrupts import interruptions
from fedmirage.runtimes.observers import Observers
from fedmirage.runtimes.processes import Processes, environment, undisturbed
from fedmirage.runtimes.sites import Sites, keep_sites, require_same_sites
from fedmirage.server.record import checkpoint
from fedmirage.server.record import folder as folders
from fedmirage.server.record.results import FILE, Results, read_results
from fedmirage.show.progress import Watch

RUNTIMES = ("auto", "inprocess", "simulation", "grpc")
ON_CLUSTERS = ("auto", "simulation")  # the runtimes whose clients may train on a Ray cluster
ADDRESS = re.compile(r"\[?0x[0-9a-f]{6,}|StackTrace Information")
TAIL = 6  # lines that are shown of what a process said before it ended unexpectedly


def launch(
    config: RunConfig,
    runtime: str,
    folder: Path,
    console: Console,
    actors: int = 0,
    verbose: bool = False,
    observers: Observers | None = None,
    sites: Sites = (),
    ray_address: str | None = None,
) -> dict[str, Any]:
    """Run, show progress, and return the summary line; a run that failed raises the reason.

    Observers follow a run that is not refused, even if nothing is left of it to do. All computation
    happens in separate processes. An interrupt ends them, closes results.jsonl and is raised as
    KeyboardInterrupt, so that a notebook survives it.
    """
    address = find_cluster(runtime, ray_address)
    folders.require_writable(folder)
    if folder.exists() and any(folder.iterdir()):
        # Whoever else writes there is named now, before anything is started.
        with folders.claim(folder):
            folders.require_vacant(config, folder)
            folders.require_same_settings(config, folder)
            require_same_sites(folder, sites)
    observers = observers or Observers()
    observers.add([folder])
    with observers:
        if (summary := folders.find_finished(config, folder)) is not None:
            console.print(folders.say_finished(summary), highlight=False)
        else:
            describe_run(config, console, sites)
            summary = conduct(config, runtime, folder, console, actors, verbose, sites, address)
    return summary


def find_cluster(runtime: str, ray_address: str | None) -> str:
    """Return the address of the Ray cluster that is meant, by name or by RAY_ADDRESS; "" is none.

    Refuses a runtime that there is not, or one that has no use for the address.
    """
    problems: list[str] = []
    if runtime not in RUNTIMES:
        known = " or ".join(RUNTIMES)
        problems.append(f"runtime={runtime!r} is not known; write {known}")
    elif ray_address and runtime not in ON_CLUSTERS:
        problems.append(
            f"{KEY} {ray_address} is for --runtime simulation, and runtime={runtime!r} has no use"
            " for it; drop one of them"
        )
    usual = os.environ.get("RAY_ADDRESS", "") if runtime in ON_CLUSTERS else ""
    address = usual if ray_address is None else ray_address
    with collect(problems):
        check_address(address or AUTO)
    refuse(problems)
    return address


def describe_run(config: RunConfig, console: Console, sites: Sites = ()) -> None:
    """Print what runs, and what is odd about it."""
    how = f"{len(sites)} sites" if sites else f"{config.partition}, {config.clients} clients"
    where = f"{config.dataset}, {how}, {config.model}"
    console.print(f"{config.methods} on {where}, seed {config.seed}", highlight=False)
    if config.secagg_params.active:
        console.print(config.secagg_params.budget(config.drawn), highlight=False)
    for caution in config.cautions:
        console.print(f"note: {caution}", style="yellow", highlight=False, markup=False)


@interruptions.telling()
def conduct(
    config: RunConfig,
    runtime: str,
    folder: Path,
    console: Console,
    actors: int,
    verbose: bool,
    sites: Sites = (),
    ray_address: str = "",
) -> dict[str, Any]:
    """Start what the runtime needs, wait for its end, and return the last line of its results."""
    mark = f"FEDMIRAGE_RUN={secrets.token_hex(8)}:{folder}"
    (folder / TRACEBACK).unlink(missing_ok=True)  # of an earlier attempt
    try:
        with (
            folders.say_if_full(folder),
            Processes(mark) as processes,
            Watch(console, folder, config.rounds) as watch,
        ):
            request = {"config": config.flat(), "folder": str(folder), "runtime": runtime}
            means = {"actors": actors, "verbose": verbose, "sites": list(sites)}
            means |= {"ray_address": ray_address}
            keep_sites(folder, sites)
            attend(processes, request | means, console, make_room=watch.make_room)
            if runtime == "grpc":
                from fedmirage.runtimes.grpc import deploy

                deploy(config, console, verbose, sites=sites)
        return read_results(folder / FILE)[-1]
    except KeyboardInterrupt:
        with undisturbed():
            text = close_interrupted(folder)
            with contextlib.suppress(OSError):  # the terminal may be closed
                console.show_cursor()
                console.print(text, highlight=False, soft_wrap=True)
        raise


def attend(
    processes: Processes,
    request: dict[str, Any],
    console: Console,
    make_room: Callable[[], None] | None = None,
) -> None:
    """Let a process carry out a request, and pass on its messages; its failure is raised here.

    If what is shown can `make_room` for a debugger, the process may use this one's terminal.
    """
    reader, writer = os.pipe()
    lent = [writer, *(copy_terminal() if make_room else [])]
    with tempfile.TemporaryFile() as log, os.fdopen(reader, "rb") as pipe:
        output = None if request["verbose"] else log
        command = [sys.executable, "-P", "-m", "fedmirage.runtimes.child"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": output, "stderr": output}
        child = processes.spawn(command, environment(), **pipes, pass_fds=lent)
        for descriptor in lent:
            os.close(descriptor)
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError), child.stdin as stdin:
            stdin.write(json.dumps({**request, "pipe": writer, "terminal": lent[1:]}).encode())
        why: dict[str, Any] = {}
        for line in map(json.loads, pipe):
            if "say" in line:
                console.print(line["say"], highlight=False, markup=False)
            elif "breakpoint" in line and make_room:
                make_room()
            else:
                why = line
        if child.wait():
            log.seek(0)
            raise make_error(why, child.returncode, log.read().decode(errors="replace"))


def make_error(said: dict[str, Any], code: int, log: str) -> FedmirageError:
    """Make the error to raise for a process that failed."""
    if "problems" in said:
        return ConfigurationError(said["problems"])
    if "failure" in said:
        return FedmirageError(said["failure"])
    # Ray's processes end with a list of addresses, which says nothing to anybody.
    told = [line for line in log.strip().splitlines() if not ADDRESS.search(line)]
    last = " / ".join(told[-TAIL:]) or "it said nothing"
    if code == -signal.SIGKILL:
        return FedmirageError(
            "the process of the run was killed, as systems do when memory runs out; give it fewer"
            " --actors or more memory, and continue with --resume, or begin again if no round ended"
        )
    return FedmirageError(
        f"the process of the run ended with code {code}: {last} (--verbose shows all of it)"
    )


def close_interrupted(folder: Path) -> str:
    """Close the results of a run whose processes are gone; return how to continue."""
    results = Results(folder)
    if not results.lines("config"):
        return "interrupted before the run began; the same command starts it again"
    path = folder / checkpoint.FILE
    done = checkpoint.read_checkpoint(path).round if path.exists() else 0
    with folders.claim(folder):
        results.interrupt(done)
    if read_results(folder / FILE)[-1]["status"] == "finished":
        return f"interrupted after the run had finished; its results are in {folder}"
    if done:
        return f"interrupted after round {done}; continue with: fedmirage run --resume {folder}"
    return "interrupted before a round was finished; the same command starts it again"
