"""Submit a run to a SuperLink, show its rounds, and exit with its true status.

`flwr run` exits with 0 once a run is submitted, even if it shows how the run fails. Here, the exit
code follows from the summary line of results.jsonl and from the status that the SuperLink reports.
Settings come from RUN_CONFIG, written as for `flwr run --run-config`.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tomli_w
from flwr.common.config import parse_config_args
from rich.console import Console

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.runtimes.bundle import app_folder
from fedmirage.server.record.results import FILE, read_results
from fedmirage.show.progress import Watch, show_summary

RUNS = Path("/runs")
CONNECTION = "compose"  # the SuperLink's name in Flower's config.toml
STATUS_EVERY = 10.0  # seconds between two requests for the run's status


def main(console: Console) -> int:
    """0 if the run finished, 1 if it failed, 130 if it was interrupted."""
    name = os.environ.get("RUN_NAME") or time.strftime("docker-%Y%m%d-%H%M%S")
    clients = int(os.environ.get("CLIENTS") or 3)
    layers = (
        {"clients": clients, "out": str(RUNS / name)},
        parse_config_args([os.environ.get("RUN_CONFIG", "")]),
    )
    config = configure(*layers)
    folder = Path(config.resume or config.out)
    if not config.resume and (folder / FILE).exists():
        raise FedmirageError(f"{folder} holds the results of another run; choose another RUN_NAME")
    run_id = submit(config)
    what = f"{config.methods} on {config.dataset}, {config.partition}, {config.clients} clients"
    console.print(f"{what}, run {run_id}", highlight=False)
    try:
        with Watch(console, folder, config.rounds):
            summary = wait(run_id, folder)
    except KeyboardInterrupt:
        flwr("stop", run_id, CONNECTION)
        return 130
    on_host = Path("runs", folder.relative_to(RUNS)) if folder.is_relative_to(RUNS) else folder
    show_summary(console, summary, on_host)
    return 0 if summary["status"] == "finished" else 1


def submit(config: RunConfig) -> str:
    """Submit a run and return the id that Flower gives it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "run.toml"
        settings.write_text(tomli_w.dumps(config.flat()))
        app = app_folder(Path(folder) / "app")
        answer = flwr("run", str(app), CONNECTION, "--run-config", str(settings))
    if not answer.get("success"):
        raise FedmirageError(f"Flower did not start the run: {answer.get('error-message', answer)}")
    return str(answer["run-id"])


def wait(run_id: str, folder: Path) -> dict[str, Any]:
    """Wait for the run's summary; a run that ends without one has failed."""
    asked = time.monotonic()
    while True:
        time.sleep(0.3)
        summary = next(
            (line for line in read_results(folder / FILE)[-1:] if line["kind"] == "summary"), None
        )
        if summary is not None:
            return summary
        if time.monotonic() - asked > STATUS_EVERY:
            asked = time.monotonic()
            (run,) = flwr("list", CONNECTION, "--run-id", run_id)["runs"]
            if run["status"].startswith("finished") and not read_results(folder / FILE)[-1:]:
                raise FedmirageError(
                    f"the run ended as {run['status']!r} and left no results; see the log of the"
                    " SuperLink"
                )
            if run["status"] in ("finished:failed", "finished:stopped"):
                raise FedmirageError(
                    f"the run ended as {run['status']!r}; see the log of the SuperLink"
                )


def flwr(*arguments: str) -> dict[str, Any]:
    """Call Flower's own command line and return its answer, which is JSON."""
    done = subprocess.run(
        ["flwr", *arguments, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    start = done.stdout.find("{")
    if start < 0:
        raise FedmirageError(f"flwr {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
    answer: dict[str, Any] = json.loads(done.stdout[start:])
    return answer


def interrupt(*_: object) -> None:
    """Treat SIGTERM, which stops a container, as an interrupt."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main(Console()))
    except FedmirageError as error:
        Console(stderr=True).print(f"[red]{error}", highlight=False)
        sys.exit(1)
