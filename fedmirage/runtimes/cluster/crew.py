"""A run whose clients train in actors of a cluster: joins it, asks its hosts, counts its room."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.cluster.actors import ClusterWorker, Crew
from fedmirage.runtimes.cluster.hosts import Requirements, require_fit_hosts
from fedmirage.runtimes.cluster.join import join
from fedmirage.runtimes.cluster.room import (
    Growth,
    Need,
    await_room,
    choose_need,
    list_hosts,
    require_room,
)
from fedmirage.runtimes.grid import WorkerGrid
from fedmirage.server.run import run


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
            f" {self.count} clients at a time, {self.need} each"
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
    require_fit_hosts(hosts, required)
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
