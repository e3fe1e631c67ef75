"""Rounds of many small clients: how much of them is not local training."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict
from rich.table import Table

from experiments.bench.app import benchmark, measure_processor, out, run_and_read
from fedmirage.client.build import build_client
from fedmirage.client.train import train
from fedmirage.common import device
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.payload import SHARED


@benchmark
def clients(
    dataset: str = "fashion-mnist",
    data_dir: str = "",
    steps: int = 25,
    cases: str = "100:1,100:0.1,1000:0.1",
    runtimes: str = "inprocess,simulation",
    rounds: int = 4,
) -> None:
    """Compare whole rounds, evaluation and checkpoint included, with the local training in them.

    The training alone is the same loop on the same clients' data, in processor seconds, shared by
    all cores. What a round takes longer is messages, averaging, evaluation and files.

    Options:
        dataset: 28x28 or larger; Fashion-MNIST is the reference.
        data_dir: Where to look for it.
        steps: Local steps per client.
        cases: Clients, and the share of them in a round, with a colon between.
        runtimes: inprocess and simulation are timed by the clock; processor counts the processor
            seconds of one process, so a busy machine hardly matters.
        rounds: Rounds whose median counts; the first one, which warms up, does not.
    """
    settings = {"dataset": dataset, "data_dir": data_dir, "local_steps": steps, "partition": "iid"}
    settings |= {"model": "simple-cnn", "rounds": rounds + 1}
    title = f"{steps} steps of simple-cnn on {dataset}, {device.cores()} cores"
    columns = ("clients", "in a round", "runtime", "s per round", "ms per client")
    table = Table(*columns, "training alone", "not training", title=title)
    for case in cases.split(","):
        count, share = case.split(":")
        config = configure({**settings, "clients": int(count), "participation": float(share)})
        training = time_training(config)
        for name in runtimes.split(","):
            whole, workers = time_round(config, name, rounds)
            alone = training / workers
            numbers = [f"{whole:.2f}", f"{1000 * whole / config.drawn:.1f}", f"{alone:.2f}"]
            row = [count, str(config.drawn), name, *numbers, f"{100 * (1 - alone / whole):.0f} %"]
            table.add_row(*row)
            out.print(" ".join(row), highlight=False)  # the whole table takes minutes
    out.print(table)


def time_round(config: RunConfig, runtime: str, rounds: int) -> tuple[float, int]:
    """Time the median round of a run; return its seconds, and how many clients train at once."""
    if runtime == "processor":
        one_thread = {**config.flat(), "server-threads": 1}
        return measure_processor(one_thread, rounds)["seconds"], 1
    lines = run_and_read(config, runtime)[-rounds:]
    workers = min(device.cores(), config.drawn)
    return statistics.median(line["seconds"]["round"] for line in lines), workers


def time_training(config: RunConfig) -> float:
    """Count the processor seconds inside the training loops of the clients of one round."""
    device.prepare(config, config.threads)
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for partition in (0, *range(config.drawn)):  # the first one warms up
            node: dict[str, Any] = {"partition-id": partition}
            client = build_client(config, Context(1, 1, node, RecordDict(), {}), Path(folder))
            local = client.open({SHARED: list(client.run.initial)}, {"round": 1, "token": "0" * 16})
            started = time.process_time()
            train(local, [])
            seconds.append(time.process_time() - started)
    return sum(seconds[1:])
