"""Submits a run to a SuperLink that is running, shows its rounds, and tells how it ended.

`flwr run` exits with 0 once a run is submitted, even if it shows how the run fails. Here the
outcome follows from the summary line of results.jsonl, or, if the SuperLink is on another machine,
from the status that it reports.
"""

import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.settings.config import RunConfig, defaults
from fedmirage.deployment.link import Link
from fedmirage.launch import describe_run
from fedmirage.records.lines import find_summary
from fedmirage.runtimes.interrupts import interruptions
from fedmirage.runtimes.superlink import ENDED, PROGRAMS, SuperLink
from fedmirage.server.record.folder import require_vacant
from fedmirage.show.progress import Watch
from fedmirage.show.words import say, write_command

COMPLETED = "finished:completed"
EVERY = 10.0  # seconds between two requests for the status
FOLDER = re.compile(r"results go to (/.*\S)")  # what the server's log says


def submit(to: Link, config: RunConfig, console: Console) -> dict[str, Any]:
    """Submit a run, follow it, and return its summary; an interrupt stops the run.

    From another machine's SuperLink there is only the status, and the folder on that machine.
    """
    folder = Path(config.resume or config.out)
    if to.here:
        require_vacant(config, folder)
    link = SuperLink(to.name, to.environment, "the log of the SuperLink", EVERY)
    describe_run(config, console)
    say(console, f"in a checkout, the same is: {show_command(to, config.flat())}")
    earlier = find_summary(folder) if to.here and config.resume else None
    run_id = link.submit(config)
    say(console, f"submitted to {to} ({to.address}) as run {run_id}")
    with interruptions.telling():
        try:
            if not to.here:
                return follow_elsewhere(link, run_id)
            with Watch(console, folder, config.rounds):
                return link.wait(run_id, folder, earlier)
        except KeyboardInterrupt:
            link.flwr("stop", run_id, to.name)
            say(console, f"interrupted: run {run_id} is stopped")
            raise


def show_command(to: Link, settings: Mapping[str, Any]) -> str:
    """Write the command of Flower's that submits these settings, as far as they are not default."""
    usual = defaults()
    changed = {key: value for key, value in settings.items() if value != usual.get(key)}
    line = " ".join(f"{key}={write_value(value)}" for key, value in changed.items())
    words = ["flwr", "run", ".", to.name, *(["--run-config", line] if line else [])]
    return write_command({"FLWR_HOME": str(to.flower)}, words)


def write_value(value: object) -> str:
    """Write a value as --run-config wants it, which is as in TOML."""
    return json.dumps(value, ensure_ascii=False)


def follow_elsewhere(link: SuperLink, run_id: str) -> dict[str, Any]:
    """Show the log that the SuperLink streams, until the run is over; return where results are."""
    command = [str(PROGRAMS / "flwr"), "log", run_id, link.name]
    with subprocess.Popen([*command, "--stream"], env=link.environment) as log:
        try:
            while not (run := link.follow(run_id)).get("status", "").startswith(ENDED):
                time.sleep(EVERY)
        finally:
            log.terminate()
    if run["status"] != COMPLETED:
        raise link.failure(run)
    said = subprocess.run(
        [*command, "--show"], env=link.environment, capture_output=True, text=True, check=False
    )
    found = FOLDER.findall(said.stdout + said.stderr)
    return {"status": "finished", **({"folder": found[-1]} if found else {})}
