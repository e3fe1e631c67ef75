"""A simulated FedAvg round beside the same steps in bare torch processes."""

import statistics
from typing import Annotated

import typer
from rich.table import Table

from experiments.bench.app import app, out
from experiments.bench.bare import time_bare
from experiments.bench.measure import time_simulation
from fedmirage.common import device
from fedmirage.common.settings.config import configure

MEMORY_FORMATS = ("channels_last", "contiguous")


@app.command()
def simulation(
    dataset: Annotated[
        str, typer.Option(help="28x28 or larger; Fashion-MNIST is the reference.")
    ] = "fashion-mnist",
    data_dir: Annotated[str, typer.Option(help="Where to look for it.")] = "",
    clients: Annotated[int, typer.Option(help="Clients per round.")] = 10,
    steps: Annotated[int, typer.Option(help="Steps per client.")] = 100,
    rounds: Annotated[
        int,
        typer.Option(help="Rounds whose median counts; the first one, which warms up, does not."),
    ] = 4,
) -> None:
    """Compare a simulated FedAvg round with the same steps in bare torch processes.

    The bare processes run a plain eager loop: as many processes as cores, one thread each, default
    memory format, unfused SGD.
    """
    settings = {
        "dataset": dataset,
        "data_dir": data_dir,
        "clients": clients,
        "local_steps": steps,
        "batch_size": 64,
    }
    settings |= {
        "model": "simple-cnn",
        "augment": "crop-flip",
        "lr": 0.01,
        "momentum": 0.9,
        "partition": "iid",
        "rounds": rounds + 1,
    }
    table = Table(
        "what",
        "seconds per round",
        "ratio to bare",
        title=f"{clients} clients x {steps} steps of batch 64, {device.cores()} cores",
    )
    before = time_bare(configure(settings), rounds)
    timed = {
        name: time_simulation(
            configure({**settings, "memory_format": name, "eval_every": rounds + 1}), rounds
        )
        for name in MEMORY_FORMATS
    }
    reference = statistics.median(before + time_bare(configure(settings), rounds))
    table.add_row("bare torch processes", f"{reference:.2f}", "1.00")
    for name, seconds in timed.items():
        table.add_row(f"simulated round, {name}", f"{seconds:.2f}", f"{seconds / reference:.2f}")
    out.print(table)
