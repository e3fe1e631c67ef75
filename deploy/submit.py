"""Submit a run to a SuperLink, show its rounds, and exit with its true status.

`flwr run` exits with 0 once a run is submitted, even if it shows how the run fails. Here, the exit
code follows from the summary line of results.jsonl and from the status that the SuperLink reports.
Settings come from RUN_CONFIG, written as for `flwr run --run-config`.
"""

import os
import signal
import sys
import time
from pathlib import Path

from flwr.common.config import parse_config_args
from rich.console import Console

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.superlink import SuperLink
from fedmirage.server.record.results import FILE
from fedmirage.show.progress import Watch, show_summary

RUNS = Path("/runs")


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
    link = SuperLink("compose", os.environ, "the log of the SuperLink")
    run_id = link.submit(config)
    what = f"{config.methods} on {config.dataset}, {config.partition}, {config.clients} clients"
    console.print(f"{what}, run {run_id}", highlight=False)
    try:
        with Watch(console, folder, config.rounds):
            summary = link.wait(run_id, folder)
    except KeyboardInterrupt:
        link.flwr("stop", run_id, link.name)
        return 130
    on_host = Path("runs", folder.relative_to(RUNS)) if folder.is_relative_to(RUNS) else folder
    show_summary(console, summary, on_host)
    return 0 if summary["status"] == "finished" else 1


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
