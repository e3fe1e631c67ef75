"""Rounds of many small clients: how much of them is not local training."""

import logging
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from experiments.bench.app import app, out
from experiments.bench.measure import measure_processor
from fedmirage.common import device
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.runtimes.inprocess import run_in_process
from fedmirage.runtimes.simulation import plan_actors, simulate
from fedmirage.server.record.results import FILE, read_results

RUNTIMES = {
    "inprocess": lambda config: run_in_process(config, plan_actors(config).actors),
    "simulation": simulate,
}


@app.command()
def clients(
    dataset: Annotated[str, typer.Option(help="The data set.")] = "fashion-mnist",
    data_dir: Annotated[str, typer.Option(help="Where to look for it.")] = "",
    steps: Annotated[int, typer.Option(help="Steps per client.")] = 25,
    cases: Annotated[
        str, typer.Option(help="Clients, and the share of them in a round, with a colon between.")
    ] = "100:1,100:0.1,1000:0.1",
    runtimes: Annotated[str, typer.Option(help="The runtimes.")] = "inprocess,simulation",
    rounds: Annotated[
        int,
        typer.Option(help="Rounds whose median counts; the first one, which warms up, does not."),
    ] = 4,
    processor: Annotated[
        bool,
        typer.Option(
            help="Count processor seconds of one process instead, so that a busy machine hardly"
            " matters; no runtime but inprocess can do that."
        ),
    ] = False,
) -> None:
    """Compare whole rounds, evaluation and checkpoint included, with the local training in them.

    The training alone is the same loop on the same clients' data in one process per core, which
    does nothing else. What a round takes longer is messages, averaging, evaluation and files.
    """
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # the table is all that is wanted
    settings = {"dataset": dataset, "data_dir": data_dir, "local_steps": steps, "partition": "iid"}
    settings |= {"model": "simple-cnn", "rounds": rounds + 1}
    title = f"{steps} steps of simple-cnn on {dataset}, {device.cores()} cores"
    columns = ("clients", "in a round", "runtime", "s per round", "evaluation", "ms per client")
    table = Table(*columns, "training alone", "not training", title=title)
    for case in cases.split(","):
        count, share = case.split(":")
        config = configure({**settings, "clients": int(count), "participation": float(share)})
        before = time_training(config, processor)
        if processor:
            one_thread = {**config.flat(), "server-threads": 1}
            timed = {"one process": {"round": measure_processor(one_thread, rounds)["seconds"]}}
        else:
            timed = {name: time_rounds(config, name, rounds) for name in runtimes.split(",")}
        alone = (before + time_training(config, processor)) / 2
        for name, seconds in timed.items():
            row = {"clients": count, "drawn": str(config.drawn), "runtime": name}
            figures = format_row(seconds, alone, config.drawn)
            table.add_row(*row.values(), *figures)
            out.print(" ".join([*row.values(), *figures]), highlight=False)  # it takes minutes
    out.print(table)


def format_row(seconds: dict[str, float], alone: float, drawn: int) -> list[str]:
    """Write what a round took, and which share of it was not training."""
    whole = seconds["round"]
    return [
        f"{whole:.2f}",
        f"{seconds['evaluate']:.2f}" if "evaluate" in seconds else "in it",
        f"{1000 * whole / drawn:.1f}",
        f"{alone:.2f}",
        f"{100 * (1 - alone / whole):.0f} %",
    ]


def time_rounds(config: RunConfig, runtime: str, rounds: int) -> dict[str, float]:
    """Time the median round of a run, and its evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        RUNTIMES[runtime](configure(config.flat(), {"out": folder}))
        lines = [line for line in read_results(Path(folder) / FILE) if line["kind"] == "round"][
            -rounds:
        ]
    return {
        name: statistics.median(line["seconds"][name] for line in lines)
        for name in ("round", "evaluate")
    }


def time_training(config: RunConfig, processor: bool = False) -> float:
    """Time the local training of one round: one process per core, each with its share of it.

    Processor seconds are those of a single process.
    """
    context = multiprocessing.get_context("spawn")
    workers = 1 if processor else min(device.cores(), config.drawn)
    pipes = [context.Pipe() for _ in range(workers)]
    processes = [
        context.Process(target=train_share, args=(theirs, config, worker, workers, processor))
        for worker, (_, theirs) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    for word in ("ready", "go"):
        for ours, _ in pipes:
            ours.recv() if word == "ready" else ours.send(word)
    seconds = [float(ours.recv()) for ours, _ in pipes]
    for process in processes:
        process.join()
    return max(seconds)


def train_share(
    connection: Connection, config: RunConfig, worker: int, workers: int, processor: bool
) -> None:
    """Train every so many-th client of a round, and send the seconds inside the training loop."""
    from flwr.app import Context, RecordDict

    from fedmirage.client.build import build_client
    from fedmirage.client.train import train
    from fedmirage.common.wire.payload import SHARED

    clock = time.process_time if processor else time.perf_counter
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:

        def train_one(partition: int) -> None:
            node: dict[str, Any] = {"partition-id": partition}
            client = build_client(config, Context(1, 1, node, RecordDict(), {}), Path(folder))
            received = {SHARED: list(client.run.initial)}
            local = client.open(received, {"round": 1, "token": "0" * 16})
            started = clock()
            train(local, [])
            seconds.append(clock() - started)

        train_one(worker)
        seconds.clear()  # the first one warms up
        connection.send("ready")
        connection.recv()
        for partition in range(worker, config.drawn, workers):
            train_one(partition)
    connection.send(sum(seconds))
