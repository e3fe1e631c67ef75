"""The simulation runtime: one process for the server, and Ray actors for the clients.

`flwr run` has Flower's own simulation, which is built for any app; this one knows its own messages,
so that a round of many small clients consists of training.
"""

import logging
import math
from dataclasses import dataclass
from typing import Any

from common import device
from common.settings.config import RunConfig
from experiments.runtimes.ray_start import count_actors, start_ray


@dataclass(frozen=True)
class ActorPlan:
    """How a host is shared by the simulated clients."""

    actors: int
    threads: int
    gpus: int
    gpu_share: float

    def __str__(self) -> str:
        gpu = f", {self.gpu_share:.2g} of a GPU each" if self.gpu_share else ""
        return (
            f"{self.actors} clients at a time, {self.threads} thread{'s' * (self.threads > 1)}"
            f" each{gpu}"
        )


def plan_actors(config: RunConfig, actors: int = 0) -> ActorPlan:
    """Plan how many actors there are, and which part of a GPU each of them has."""
    import torch

    count = count_actors(config, actors)
    gpus = torch.cuda.device_count() if device.pick(config.device).type == "cuda" else 0
    # Ray assigns whole GPUs, or a part of one.
    share = 0.0 if not gpus else 1.0 if count <= gpus else 1 / math.ceil(count / gpus)
    return ActorPlan(count, config.threads, gpus, share)


def simulate(config: RunConfig, verbose: bool = False, actors: int = 0) -> dict[str, Any]:
    """Run to the end, and return the summary line; an error of the server is raised here."""
    plan = plan_actors(config, actors)
    start_ray(config, actors, verbose)
    import ray

    from experiments.runtimes.actors import start_actors
    from experiments.runtimes.grid import WorkerGrid
    from server.run import run

    if not verbose:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
    grid = WorkerGrid(config.clients)
    try:
        for worker in start_actors(config, plan.actors, plan.gpu_share):
            grid.add(worker)
        return run(grid, config)
    finally:
        grid.close()
        ray.shutdown()
