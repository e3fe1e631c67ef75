"""The simulation runtime: one process for the server, and Ray actors for the clients.

`flwr run` has Flower's own simulation, which is built for any app; this one knows its own messages,
so that a round of many small clients consists of training."""

import logging
import math
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import device
from common.settings.config import RunConfig

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
# Whoever reaches Ray's ports can run programs here. Despite its name, this variable decides on
# every system whether Ray's processes listen on the network or on this host only.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}


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

    def start_ray(self, verbose: bool) -> None:
        """Start Ray on this host.

        One Ray "CPU" is one actor, so that Ray starts exactly as many as planned.
        """
        prepare_ray()
        import ray

        quiet: dict[str, Any] = (
            {} if verbose else {"logging_level": logging.CRITICAL, "log_to_driver": False}
        )
        ray.init(num_cpus=self.actors, num_gpus=self.gpus, include_dashboard=False, **quiet)


def plan_actors(config: RunConfig, actors: int = 0) -> ActorPlan:
    """Plan as many actors as there are cores for their threads.

    There are never more of them than clients that train in a round.
    """
    import torch

    count = min(config.drawn, actors or max(1, device.cores() // config.threads))
    gpus = torch.cuda.device_count() if device.pick(config.device).type == "cuda" else 0
    # Ray assigns whole GPUs, or a part of one.
    share = 0.0 if not gpus else 1.0 if count <= gpus else 1 / math.ceil(count / gpus)
    return ActorPlan(count, config.threads, gpus, share)


def prepare_ray() -> None:
    """Set what Ray reads when it is first imported.

    The token is new for every run: other users of this host cannot talk to its processes either.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in QUIET.items()})
    os.environ.update(LOOPBACK, RAY_AUTH_TOKEN=secrets.token_hex(32))


def simulate(config: RunConfig, verbose: bool = False, actors: int = 0) -> dict[str, Any]:
    """Run to the end, and return the summary line; an error of the server is raised here."""
    plan = plan_actors(config, actors)
    plan.start_ray(verbose)
    import ray

    from experiments.runtimes.actors import ActorWorker, Store
    from experiments.runtimes.grid import WorkerGrid
    from server.run import run

    if not verbose:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
    memory = Path(config.resume or config.out) / "memory"
    grid, store = WorkerGrid(config.clients), Store()
    try:
        for _ in range(plan.actors):
            grid.add(ActorWorker(config, memory, plan, store))
        return run(grid, config)
    finally:
        grid.close()
        ray.shutdown()
