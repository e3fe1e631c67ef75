"""Starts Ray in a thread; loads without torch, so that Ray's processes start while torch loads."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from typing import TYPE_CHECKING, Any

from common.cores import cores
from common.settings.config import RunConfig

if TYPE_CHECKING:
    from experiments.runtimes.actors import ActorWorker

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
# Whoever reaches Ray's ports can run programs here. Despite its name, this variable decides on
# every system whether Ray's processes listen on the network or on this host only.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}


def count_actors(config: RunConfig, actors: int = 0) -> int:
    """Count as many actors as there are cores for their threads, or as many as were asked for.

    There are never more of them than clients that train in a round.
    """
    return min(config.drawn, actors or max(1, cores() // config.threads))


def prepare_ray() -> None:
    """Set what Ray reads when it is first imported.

    The token is new for every run: other users of this host cannot talk to its processes either.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in QUIET.items()})
    os.environ.update(LOOPBACK, RAY_AUTH_TOKEN=secrets.token_hex(32))


class RayStart(threading.Thread):
    """Ray's start on this host: one Ray "CPU" is one actor, so that exactly as many fit.

    Ray finds the GPUs itself, unless the run leaves them alone. If there are none, the actors start
    at once; else how they share the GPUs is planned once torch is loaded.
    """

    def __init__(self, config: RunConfig, actors: int = 0, verbose: bool = False) -> None:
        super().__init__(daemon=True)
        self.config, self.count = config, max(1, count_actors(config, actors))
        self.workers: list[ActorWorker] = []  # those that were started at once
        self.options: dict[str, Any] = {"num_cpus": self.count}
        self.options |= {"num_gpus": 0} if config.device == "cpu" else {}
        if not verbose:
            self.options |= {"logging_level": logging.CRITICAL, "log_to_driver": False}
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.start()

    def run(self) -> None:
        """Start Ray; what goes wrong is raised by `finish`."""
        try:
            prepare_ray()
            import ray

            ray.init(include_dashboard=False, **self.options)
            if not ray.cluster_resources().get("GPU"):  # type: ignore[no-untyped-call]
                from experiments.runtimes.actors import start_actors

                self.workers = start_actors(self.config, self.count, 0.0)
        except BaseException as error:
            self.error = error
        self.over.set()
        # Linux ends Ray's processes together with the thread that has started them.
        threading.Event().wait()

    def finish(self) -> list[ActorWorker]:
        """Wait until Ray runs; return the actors that were started at once."""
        self.over.wait()
        if self.error is not None:
            raise self.error
        return self.workers
