"""Submits a run to a SuperLink that is running, shows its rounds, and tells how it ended.

`flwr run` exits with 0 once a run is submitted, even if it shows how the run fails. Here the
outcome follows from the summary line of results.jsonl, or, if the SuperLink is on another machine,
from the status that it reports.
"""

import os
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import flower_home
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import nearest
from fedmirage.launch import describe_run
from fedmirage.runtimes.superlink import ENDED, PROGRAMS, SuperLink
from fedmirage.server.record.folder import require_vacant
from fedmirage.show.progress import Watch
from fedmirage.show.words import say

COMPLETED = "finished:completed"
EVERY = 10.0  # seconds between two requests for the status
HERE = ("127.", "localhost:", "[::1]:")  # how the address of a SuperLink on this machine begins


def submit(name: str, config: RunConfig, console: Console) -> dict[str, Any]:
    """Submit a run, follow it, and return its summary; an interrupt stops the run.

    From another machine's SuperLink there is only the status, and the folder on that machine.
    """
    address = find_address(name)
    here = address.startswith(HERE)
    folder = Path(config.resume or config.out)
    if here:
        require_vacant(config, folder)
    variables = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    link = SuperLink(name, {**os.environ, **variables}, "the log of the SuperLink", EVERY)
    describe_run(config, console)
    run_id = link.submit(config)
    say(console, f"submitted to {name} ({address}) as run {run_id}")
    try:
        if not here:
            return follow_elsewhere(link, run_id)
        with Watch(console, folder, config.rounds):
            return link.wait(run_id, folder)
    except KeyboardInterrupt:
        link.flwr("stop", run_id, name)
        say(console, f"interrupted: run {run_id} is stopped")
        raise


def follow_elsewhere(link: SuperLink, run_id: str) -> dict[str, Any]:
    """Show the log that the SuperLink streams, until the run is over."""
    command = [str(PROGRAMS / "flwr"), "log", run_id, link.name, "--stream"]
    with subprocess.Popen(command, env=link.environment) as log:
        try:
            while not (run := link.find_run(run_id)).get("status", "").startswith(ENDED):
                time.sleep(EVERY)
        finally:
            log.terminate()
    if run["status"] != COMPLETED:
        raise link.failure(run)
    return {"status": "finished"}


def find_address(name: str) -> str:
    """Find the address of a SuperLink in Flower's config.toml."""
    path = flower_home() / "config.toml"
    try:
        known = tomllib.loads(path.read_text()).get("superlink", {}) if path.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise FedmirageError(f"{path} cannot be read as TOML: {error}") from None
    links = {key: value["address"] for key, value in known.items() if is_remote(value)}
    if name not in links:
        raise FedmirageError(
            f"{path} has no SuperLink {name!r}{nearest(name, links) if links else ''} (write it"
            ' there as [superlink.NAME], address = "HOST:9093", and insecure = true or'
            " root-certificates)"
        )
    return str(links[name])


def is_remote(entry: Any) -> bool:
    """Whether an entry of Flower's config.toml is a SuperLink, and not Flower's simulation."""
    return isinstance(entry, dict) and not str(entry.get("address", ":")).startswith(":")
