"""One run in one of the runtimes, watched."""

import os
import signal
from pathlib import Path
from typing import Any

from rich.console import Console

from common.data import load
from common.errors import ConfigurationError
from common.run import check_with_data
from common.secagg.settings import SecAggOn
from common.settings.config import RunConfig
from experiments.runtimes.simulation import plan_actors, simulate
from experiments.show.progress import Watch, show_summary
from server.record import checkpoint
from server.record.results import FILE, Results, read

RUNTIMES = ("simulation", "grpc")


def launch(
    config: RunConfig,
    runtime: str,
    folder: Path,
    console: Console,
    actors: int = 0,
    verbose: bool = False,
) -> dict[str, Any]:
    """Run, show progress, and return the summary line; a run that failed raises the reason."""
    if runtime not in RUNTIMES:
        raise ConfigurationError(
            [f"runtime={runtime!r} is not known; write {' or '.join(RUNTIMES)}"]
        )
    if not config.resume and Results(folder).lines("config"):
        raise ConfigurationError(
            [
                f"out={str(folder)!r} holds the results of another run; choose another directory,"
                " or continue it with --resume"
            ]
        )
    if config.resume:  # an older summary would look like the end of this run
        Results(folder).forget_after(checkpoint.read(folder / checkpoint.FILE).round)
    check_with_data(config, load(config.dataset, config.data_dir or None, config.download))
    console.print(
        f"{config.methods} on {config.dataset}, {config.partition}, {config.clients} clients,"
        f" {config.model}, seed {config.seed}",
        highlight=False,
    )
    if isinstance(config.secagg_params, SecAggOn):
        console.print(config.secagg_params.budget(config.drawn), highlight=False)
    for caution in config.cautions:
        console.print(f"note: {caution}", style="yellow", highlight=False, markup=False)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # as Ctrl-C; a simulation has Ray's handler, which just ends it
    try:
        with Watch(console, folder, config.rounds):
            if runtime == "simulation":
                console.print(f"simulation: {plan_actors(config, actors)}", highlight=False)
                simulate(config, verbose, actors)
            else:
                from experiments.runtimes.grpc import deploy

                deploy(config, console, verbose)
    except KeyboardInterrupt:
        folder.mkdir(parents=True, exist_ok=True)
        Results(folder).finish("interrupted")
        if (folder / checkpoint.FILE).exists():
            console.print(
                f"interrupted; continue with: fedmirage run --resume {folder}", highlight=False
            )
        os._exit(130)  # the server's thread may still wait for replies that nobody will send
    summary = read(folder / FILE)[-1]
    show_summary(console, summary, folder)
    return summary
