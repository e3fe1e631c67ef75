"""What several benchmarks measure: a round of a run, in seconds, processor seconds and bytes."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.runtimes.simulation import simulate
from fedmirage.server.record.results import FILE, read_results


def measure_round(
    config: RunConfig, runtime: str, rounds: int, code: str = "own"
) -> dict[str, float]:
    """Measure the median round of a run: seconds without evaluation, and bytes.

    Over gRPC, SuperNodes run their own code or any (fedmirage/node/supernode.py).
    """
    from fedmirage.runtimes.grpc import deploy

    with tempfile.TemporaryDirectory() as folder:
        placed = configure(config.flat(), {"out": folder})
        if runtime == "simulation":
            simulate(placed)
        else:
            deploy(placed, Console(quiet=True), code=code)
        lines = [line for line in read_results(Path(folder) / FILE) if line["kind"] == "round"][
            -rounds:
        ]
    times = [line["seconds"]["round"] - line["seconds"]["evaluate"] for line in lines]
    moved = {
        key: statistics.median(line[key] for line in lines) for key in ("bytes_up", "bytes_down")
    }
    return {"seconds": statistics.median(times), **moved}


def measure_processor(settings: dict[str, Any], rounds: int) -> dict[str, float]:
    """Measure rounds in this process: processor seconds and bytes per round.

    The start, the first round and the last evaluation are in both of two runs, and cancel.
    """
    from fedmirage.runtimes.inprocess import run_in_process

    seconds = []
    for number in (1, rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            run_in_process(configure({**settings, "rounds": number, "out": folder}))
            seconds.append(time.process_time() - started)
            lines = [line for line in read_results(Path(folder) / FILE) if line["kind"] == "round"]
    moved = {key: lines[-1][key] for key in ("bytes_up", "bytes_down")}
    return {"seconds": (seconds[1] - seconds[0]) / rounds, **moved}
