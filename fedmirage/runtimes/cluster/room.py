"""Runs whose clients train in actors of a cluster.

How a run asks its hosts, counts the room on them, and uses what is added while it goes on.
"""

import contextlib
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray._private.state import available_resources_per_node

from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.cluster.actors import ClusterWorker, Crew
from fedmirage.runtimes.cluster.hosts import Requirements, name_of, require_fit_hosts
from fedmirage.runtimes.cluster.join import KEY, join
from fedmirage.runtimes.grid import WorkerGrid
from fedmirage.runtimes.simulation import share_gpus
from fedmirage.server.run import run

PATIENCE = 8.0  # seconds in which a run that has just ended gives back its room
EVERY = 5.0  # seconds between two looks at what was added to the cluster
ROUNDING = 1e-6

Host = Mapping[str, Any]  # as Ray describes a node


@dataclass(frozen=True)
class Need:
    """What one actor, or one run, takes of its host."""

    cpus: int
    gpus: float = 0.0

    def count(self, resources: Mapping[str, float]) -> int:
        """Count how many fit into this."""
        fit = math.floor(resources.get("CPU", 0.0) / self.cpus + ROUNDING)
        if self.gpus:
            fit = min(fit, math.floor(resources.get("GPU", 0.0) / self.gpus + ROUNDING))
        return fit

    def __str__(self) -> str:
        cpus = f"{self.cpus} CPU{'s' * (self.cpus > 1)}"
        return f"{cpus} and {self.gpus:.2g} of a GPU" if self.gpus else cpus


def list_hosts() -> list[Host]:
    """List the hosts of the cluster on which something can run."""
    nodes: list[Host] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]


def count_gpus(hosts: Sequence[Host]) -> int:
    """Count the GPUs of all hosts."""
    return int(sum(host["Resources"].get("GPU", 0) for host in hosts))


def count_room(need: Need, hosts: Sequence[Host], free: bool) -> int:
    """Count how often something fits on these hosts, now or if nobody else used them."""
    available = available_resources_per_node() if free else {}  # type: ignore[no-untyped-call]
    return sum(
        need.count(available.get(host["NodeID"], {}) if free else host["Resources"])
        for host in hosts
    )


def choose_need(threads: int, wanted: int, device: str, hosts: Sequence[Host]) -> Need:
    """Decide what an actor takes: a core per thread, and a part of a GPU if there are any.

    `wanted` actors share the GPUs; 0 means as many as there are cores for.
    """
    gpus = count_gpus(hosts) if device != "cpu" else 0
    count = wanted or max(1, count_room(Need(threads), hosts, free=False))
    return Need(threads, share_gpus(count, gpus))


def require_room(need: Need, hosts: Sequence[Host], what: str, remedy: str) -> None:
    """Refuse a cluster on none of whose hosts this fits, even if nothing else ran there."""
    if count_room(need, hosts, free=False):
        return
    offers = ", ".join(
        f"{name_of(host)} {Need(int(host['Resources']['CPU']), host['Resources'].get('GPU', 0))}"
        for host in hosts
    )
    raise ConfigurationError(
        f"{KEY}: no host of the cluster has room for {what}, which takes {need}:"
        f" {offers or 'none has CPUs'}; {remedy}"
    )


def await_room(need: Need, hosts: Sequence[Host]) -> int:
    """Return for how many there is room now; refuse a cluster that others use to the full."""
    deadline = time.monotonic() + PATIENCE
    while not (room := count_room(need, hosts, free=True)):
        if time.monotonic() > deadline:
            raise ConfigurationError(
                f"{KEY}: others use the whole cluster, and an actor takes {need}; wait until they"
                " leave room, or let them start with fewer --actors"
            )
        time.sleep(0.3)
    return room


class Growth:
    """Starts more actors as soon as the cluster has more room, up to a limit.

    `places` counts those that were asked for: an actor that is lost, or whose host cannot be used,
    is replaced in its own place.
    """

    def __init__(self, crew: Crew, need: Need, places: int, limit: int) -> None:
        self.crew, self.need, self.places, self.limit = crew, need, places, limit

    def begin(self, grid: WorkerGrid) -> None:
        """Look now and then, until the grid is closed."""
        threading.Thread(target=self._watch, args=(grid,), daemon=True).start()

    def _watch(self, grid: WorkerGrid) -> None:
        while not grid.closed:
            time.sleep(EVERY)
            with grid.change:
                workers = list(grid.workers)
            # Those that wait for room get it first.
            if all(isinstance(worker, ClusterWorker) and worker.ready for worker in workers):
                with contextlib.suppress(ray.exceptions.RayError):  # the run may just have ended
                    room = count_room(self.need, list_hosts(), free=True)
                    for _ in range(min(room, self.limit - self.places)):
                        self.places += 1
                        grid.add(ClusterWorker(self.crew))


@dataclass(frozen=True)
class PlannedCrew:
    """A run's actors before they are started, and how many more may come."""

    crew: Crew
    need: Need
    count: int
    limit: int
    hosts: int
    address: str

    def __str__(self) -> str:
        return (
            f"Ray cluster {self.address}: {self.hosts} host{'s' * (self.hosts > 1)},"
            f" {self.count} client{'s' * (self.count > 1)} at a time, {self.need} each"
        )


def plan_crew(
    config: RunConfig, folder: Path, address: str, actors: int, verbose: bool
) -> PlannedCrew:
    """Join the cluster and plan the actors; everything that is wrong with it is refused."""
    found = join(address, verbose)
    hosts, limit = list_hosts(), min(config.drawn, actors or config.drawn)
    need = choose_need(config.threads, min(actors, limit), config.device, hosts)
    require_room(need, hosts, "one actor", "lower --threads, or add a host that has it")
    required = Requirements.of([config])
    require_fit_hosts(hosts, required, config.node_timeout)
    count = min(limit, await_room(need, hosts))
    fingerprint = find_fingerprint(config)
    crew = Crew(config, folder.absolute(), need.cpus, need.gpus, required, fingerprint)
    return PlannedCrew(crew, need, count, limit, len(hosts), found)


def simulate_on_cluster(planned: PlannedCrew) -> dict[str, Any]:
    """Run to the end, with the server in this process; return the summary line."""
    config = planned.crew.config
    grid = WorkerGrid(config.clients)
    try:
        for _ in range(planned.count):
            grid.add(ClusterWorker(planned.crew))
        Growth(planned.crew, planned.need, planned.count, planned.limit).begin(grid)
        return run(grid, config)
    except ray.exceptions.RayError as error:
        raise FedmirageError(f"the Ray cluster is gone: {str(error).splitlines()[0]}") from error
    finally:
        grid.close()
        ray.shutdown()


def find_fingerprint(config: RunConfig) -> str:
    """Return the fingerprint of the server's data; empty if it reads none."""
    if not config.server_reads_data:
        return ""
    return load(config.dataset, config.data_dir or None, config.download).fingerprint
