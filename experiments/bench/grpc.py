"""Rounds over gRPC: Flower's way, with forked tasks, and with adaptive waiting as well."""

import os

from rich.table import Table

from experiments.bench.app import benchmark, measure_round, out
from fedmirage.common import device
from fedmirage.common.settings.config import configure

# What is measured, the code that the nodes run, and how: as Flower's own programs do it, then ours.
WAYS = {
    "Flower's own": ("any", "fresh", "flower"),
    "tasks are forked": ("own", "forked", "flower"),
    "and waiting is adaptive": ("own", "forked", "adaptive"),
    "the same, with the run's code": ("any", "forked", "adaptive"),
}


@benchmark
def grpc(rounds: int = 3, clients: int = 3, steps: int = 10, modes: str = "plain,secure") -> None:
    """Compare how SuperNodes answer messages: seconds per round over gRPC, plain and secure.

    Options:
        rounds: Rounds whose median counts; the first one, which warms up, does not.
        clients: SuperNodes, all on this host.
        steps: Local steps per client.
        modes: What is measured of plain and secure.
    """
    settings = {"dataset": "digits", "partition": "iid", "clients": clients, "local_steps": steps}
    settings |= {"rounds": rounds + 1, "eval_every": rounds + 1}
    chosen = [mode for mode in ("plain", "secure") if mode in modes.split(",")]
    titles = [title for mode in chosen for title in (f"{mode} s", "ratio")]
    title = f"{clients} SuperNodes, {steps} steps, {device.cores()} cores"
    table = Table("way", *titles, title=title)
    first: dict[str, float] = {}
    for name, (code, tasks, waiting) in WAYS.items():
        cells = []
        for mode in chosen:
            config = configure({**settings, "secagg": "on" if mode == "secure" else "off"})
            os.environ |= {"FEDMIRAGE_TASKS": tasks, "FEDMIRAGE_WAITING": waiting}
            seconds = measure_round(config, "grpc", rounds, code)["seconds"]
            first.setdefault(mode, seconds)
            cells += [f"{seconds:.2f}", f"{seconds / first[mode]:.2f}"]
            # printed at once, because the whole table takes minutes
            out.print(f"{name}, {mode}: {cells[-2]} s, {cells[-1]}", highlight=False)
        table.add_row(name, *cells)
    out.print(table)
