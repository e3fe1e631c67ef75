"""Rounds with secure aggregation beside rounds without it."""

from typing import Annotated

import typer
from rich.table import Table

from experiments.bench.app import Rounds, Steps, app, out
from experiments.bench.measure import measure_processor, measure_round
from fedmirage.common.settings.config import configure


@app.command()
def secagg(
    rounds: Rounds = 3,
    model: Annotated[
        str, typer.Option(help="The model; its size determines the cost.")
    ] = "simple-cnn",
    steps: Steps = 10,
    clients: Annotated[str, typer.Option(help="Numbers of clients.")] = "10,50,100,200,300",
    runtime: Annotated[
        str,
        typer.Option(
            help="How these clients run: simulation, or inprocess, in processor seconds of one"
            " process, which do not depend on what else the machine does."
        ),
    ] = "simulation",
    line: Annotated[
        str, typer.Option("--secagg", help='Secure aggregation, as "on(threshold=0.8)".')
    ] = "on",
    grpc: Annotated[int, typer.Option(help="Clients over gRPC; 0 leaves them out.")] = 3,
) -> None:
    """Compare rounds with and without secure aggregation: seconds, and bytes up and down."""
    settings = {"model": model, "local_steps": steps, "partition": "iid"}
    settings |= {"rounds": rounds + 1, "eval_every": rounds + 1}
    heads = ("runtime", "clients", "plain s", "secure s", "ratio", "up MB")
    table = Table(*heads, "down MB", title=f"{model}, {steps} steps")
    cases = [(runtime, int(count)) for count in clients.split(",") if count]
    cases += [("grpc", grpc)] if grpc else []
    for place, count in cases:
        plain, secure = (
            measure_processor(chosen, rounds)
            if place == "inprocess"
            else measure_round(configure(chosen), place, rounds)
            for chosen in ({**settings, "clients": count, "secagg": mode} for mode in ("off", line))
        )
        moved = [
            f"{plain[key] / 1e6:.2f} -> {secure[key] / 1e6:.2f}"
            for key in ("bytes_up", "bytes_down")
        ]
        ratio = secure["seconds"] / plain["seconds"]
        times = [f"{value:.2f}" for value in (plain["seconds"], secure["seconds"], ratio)]
        # printed at once, because the whole table takes minutes
        said = f"{place}, {count} clients: {times[0]} s plain, {times[1]} s secure"
        out.print(said, highlight=False)
        table.add_row(place, str(count), *times, *moved)
    out.print(table)
