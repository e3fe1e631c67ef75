"""Rounds with secure aggregation beside rounds without it."""

from typing import Annotated

from rich.table import Table

from experiments.bench.app import benchmark, measure_processor, measure_round, out
from fedmirage.common.settings.config import configure


@benchmark
def secagg(
    rounds: int = 3,
    model: str = "simple-cnn",
    steps: int = 10,
    clients: str = "10,50,100,200,300",
    runtime: str = "simulation",
    line: Annotated[str, "--secagg"] = "on",
    grpc: int = 3,
) -> None:
    """Compare rounds with and without secure aggregation: seconds, and bytes up and down.

    Options:
        rounds: Rounds whose median counts; the first one, which warms up, does not.
        model: The model; its size determines the cost.
        steps: Local steps per client.
        clients: Numbers of clients.
        runtime: How these clients run: simulation, or inprocess, in processor seconds of one
            process, which do not depend on what else the machine does.
        line: Secure aggregation, as "on(threshold=0.8)".
        grpc: Clients over gRPC; 0 leaves them out.
    """
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
