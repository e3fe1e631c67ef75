"""Rounds with secure aggregation beside rounds without it."""

from typing import Annotated

import typer
from rich.table import Table

from common.settings.config import configure
from experiments.bench.app import app, out
from experiments.bench.measure import measure_round


@app.command()
def secagg(
    rounds: Annotated[
        int,
        typer.Option(help="Rounds whose median counts; the first one, which warms up, does not."),
    ] = 3,
    model: Annotated[
        str, typer.Option(help="The model; its size determines the cost.")
    ] = "simple-cnn",
    steps: Annotated[int, typer.Option(help="Local steps per client.")] = 10,
    clients: Annotated[str, typer.Option(help="Numbers of clients in the simulation.")] = "3,10,50",
    grpc: Annotated[int, typer.Option(help="Clients over gRPC; 0 leaves them out.")] = 3,
) -> None:
    """Compare rounds with and without secure aggregation: seconds, and bytes up and down."""
    settings = {
        "model": model,
        "local_steps": steps,
        "partition": "iid",
        "rounds": rounds + 1,
        "eval_every": rounds + 1,
    }
    table = Table(
        "runtime",
        "clients",
        "plain s",
        "secure s",
        "ratio",
        "up MB",
        "down MB",
        title=f"{model}, {steps} steps",
    )
    cases = [("simulation", int(count)) for count in clients.split(",") if count] + [
        ("grpc", grpc)
    ] * bool(grpc)
    for runtime, count in cases:
        plain, secure = (
            measure_round(
                configure({**settings, "clients": count, "secagg": mode}), runtime, rounds
            )
            for mode in ("off", "on")
        )
        moved = [
            f"{plain[key] / 1e6:.2f} -> {secure[key] / 1e6:.2f}"
            for key in ("bytes_up", "bytes_down")
        ]
        times = [
            f"{plain['seconds']:.2f}",
            f"{secure['seconds']:.2f}",
            f"{secure['seconds'] / plain['seconds']:.2f}",
        ]
        # printed at once, because the whole table takes minutes
        out.print(
            f"{runtime}, {count} clients: {times[0]} s plain, {times[1]} s secure", highlight=False
        )
        table.add_row(runtime, str(count), *times, *moved)
    out.print(table)
