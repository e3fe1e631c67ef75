"""The simulation runtime: one process for the server, and Ray actors for the clients."""

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

    def backend(self, verbose: bool) -> dict[str, Any]:
        """Describe the plan for Flower's simulation.

        One Ray "CPU" is one actor, so that Ray starts exactly as many as planned.
        """
        quiet = {} if verbose else {"logging_level": "CRITICAL", "log_to_driver": False}
        return {
            "init_args": {
                "num_cpus": self.actors,
                "num_gpus": self.gpus,
                "include_dashboard": False,
                **quiet,
            },
            "client_resources": {"num_cpus": 1, "num_gpus": self.gpu_share},
        }


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


def simulate(config: RunConfig, verbose: bool = False, actors: int = 0) -> None:
    """Run to the end; an error of the server is raised here."""
    prepare_ray()
    import ray
    from flwr.simulation import run_simulation

    from client.app import make_app as client_app
    from server.app import make_app as server_app

    if not verbose:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
    memory = Path(config.resume or config.out) / "memory"
    try:
        run_simulation(
            server_app(config),
            client_app(config, memory),
            num_supernodes=config.clients,
            backend_config=plan_actors(config, actors).backend(verbose),
            verbose_logging=verbose,
        )
    finally:
        ray.shutdown()
