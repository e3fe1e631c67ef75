"""The simulation runtime: one process for the server, and Ray actors for the clients.

`flwr run` has Flower's own simulation, which is built for any app; this one knows its own messages,
so that a round of many small clients consists of training.
"""

import logging
import math
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.ray_start import count_actors, prepare_ray, start_ray
from fedmirage.runtimes.sites import Sites

if TYPE_CHECKING:
    from fedmirage.runtimes.actors import ActorWorker


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
            f"{self.actors} client{'s' * (self.actors > 1)} at a time,"
            f" {self.threads} thread{'s' * (self.threads > 1)}"
            f" each{gpu}"
        )


def plan_actors(config: RunConfig, actors: int = 0) -> ActorPlan:
    """Plan how many actors there are, and which part of a GPU each of them has."""
    import torch

    from fedmirage.common import device

    count = count_actors(config, actors)
    gpus = torch.cuda.device_count() if device.pick(config.device).type == "cuda" else 0
    return ActorPlan(count, config.threads, gpus, share_gpus(count, gpus))


def share_gpus(count: int, gpus: int) -> float:
    """Return the part of a GPU that each actor gets: a whole one, or what Ray can count exactly.

    Ray rounds to ten-thousandths: six times a rounded sixth would be more than one GPU.
    """
    if not gpus:
        return 0.0
    return 1.0 if count <= gpus else math.floor(1e4 / math.ceil(count / gpus)) / 1e4


def simulate(
    config: RunConfig,
    verbose: bool = False,
    actors: int = 0,
    started: "Future[list[ActorWorker]] | None" = None,
    sites: Sites = (),
) -> dict[str, Any]:
    """Run to the end, and return the summary line; an error of the server is raised here.

    `started` has the actors if `start_early` has begun to start them.
    """
    workers = started.result() if started else start_workers(config, verbose, actors)
    import ray

    from fedmirage.runtimes.grid import WorkerGrid
    from fedmirage.server.run import run

    if not verbose:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
    grid = WorkerGrid(config.clients, sites)
    try:
        for worker in workers:
            grid.add(worker)
        return run(grid, config)
    finally:
        grid.close()
        ray.shutdown()


def start_workers(config: RunConfig, verbose: bool = False, actors: int = 0) -> "list[ActorWorker]":
    """Start Ray and the actors, which load torch while this process goes on."""
    start_ray(config, actors, verbose)
    import ray

    from fedmirage.runtimes.actors import ActorWorker, Store

    memory, store, share = Path(config.resume or config.out) / "memory", Store(), 0.0
    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if resources.get("GPU"):  # otherwise there is nothing to share, so torch need not be asked
        share = plan_actors(config, actors).gpu_share
    count = count_actors(config, actors)
    return [ActorWorker(config, memory, share, store) for _ in range(count)]


def start_early(
    config: RunConfig, verbose: bool = False, actors: int = 0
) -> "Future[list[ActorWorker]]":
    """Start Ray and the actors in a thread, so that this process can check the run meanwhile.

    What both need is imported before: two threads must not import the same packages at once, except
    for torch, on which the thread waits without holding anything that torch needs. Linux ends Ray's
    processes with the thread that started them, so it never ends.
    """
    prepare_ray()
    import fedmirage.runtimes.actors  # noqa: F401

    workers: Future[list[ActorWorker]] = Future()

    def start() -> None:
        try:
            workers.set_result(start_workers(config, verbose, actors))
        except BaseException as error:
            workers.set_exception(error)
        threading.Event().wait()

    threading.Thread(target=start, daemon=True).start()
    return workers
