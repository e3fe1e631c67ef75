"""The process that is a command on a Ray cluster: Ray's driver, to which its runs belong.

It reads requests as lines of JSON: first the cluster and what its hosts must have, then one line
per run. A run waits until a host has room for it. Its files come back while it goes on, so the
command's folder has what it would have without a cluster. Ray ends the runs with this process.
"""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ray

from fedmirage.common.errors import FedmirageError, reason
from fedmirage.common.settings.config import RunConfig, validate
from fedmirage.comparison.on_host import (
    PARENT,
    RUN,
    Piece,
    RunActor,
    list_parent,
    list_run,
    receive,
)
from fedmirage.runtimes.actors import find_cause
from fedmirage.runtimes.child import ending_process
from fedmirage.runtimes.cluster.hosts import Requirements, require_fit_hosts
from fedmirage.runtimes.cluster.join import join
from fedmirage.runtimes.cluster.room import Host, Need, count_gpus, count_room, list_hosts
from fedmirage.runtimes.cluster.room import require_room as require
from fedmirage.server.record import folder as folders

EVERY = 1.0  # seconds between two looks at a run, at least
SHARE = 0.1  # of the time may go into fetching files


def serve() -> None:
    """Join the cluster, and do runs there until nobody asks any more."""
    request = json.loads(sys.stdin.readline())
    os.set_inheritable(request["pipe"], False)
    lock = threading.Lock()
    with os.fdopen(request["pipe"], "w", buffering=1) as pipe:

        def tell(**line: Any) -> None:
            with lock:
                pipe.write(json.dumps(line) + "\n")

        with ending_process(tell):
            cluster = Cluster(request)
            tell(**cluster.survey())
            for line in sys.stdin:
                run = json.loads(line)
                answer = partial(tell, run=run["run"])
                threading.Thread(target=cluster.do, args=(run, answer), daemon=True).start()


class Cluster:
    """The cluster as this command sees it."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.address = join(request["address"], request["verbose"])
        self.configs = [validate(settings) for settings in request["configs"]]
        self.actors, self.runs = int(request["actors"]), int(request["runs"])
        self.required = Requirements.of(self.configs)
        self.hosts = list_hosts()
        if request["checks"]:
            longest = max(config.node_timeout for config in self.configs)
            require_fit_hosts(self.hosts, self.required, longest)

    def survey(self) -> dict[str, int]:
        """Decide how many clients of each run train at a time, and say how many runs fit."""
        config = self.configs[0]
        alone = need_of(config, 1, self.hosts)
        remedy = "lower --actors or --threads, or add a host that has it"
        require(need_of(config, max(1, self.actors), self.hosts), self.hosts, "one run", remedy)
        room = count_room(alone, self.hosts, free=False)
        if not self.actors:
            largest = max(alone.count(host["Resources"]) for host in self.hosts)
            share = max(1, room // max(1, min(room, self.runs)))
            self.actors = min(config.drawn, largest, share)
        fit = count_room(need_of(config, self.actors, self.hosts), self.hosts, free=False)
        return {"actors": self.actors, "at_once": fit}

    def do(self, run: dict[str, Any], tell: Any) -> None:
        """Do a run on whichever host has room for it, and say how it ended."""
        config, folder = validate(run["config"]), Path(run["folder"])
        need = need_of(config, self.actors, self.hosts)
        kind = ray.remote(RunActor).options(
            num_cpus=need.cpus, num_gpus=need.gpus, scheduling_strategy="SPREAD"
        )
        actor: Any = kind.remote(self.required)
        try:
            with folders.claim(folder):
                tell(done=self._follow(actor, config, folder, tell))
        except ray.exceptions.RayError as error:
            tell(lost=find_cause(error))
        except (FedmirageError, OSError) as error:
            tell(done=reason(error))
        except Exception as error:
            traceback.print_exc()
            tell(done=f"{type(error).__name__}: {error}")
        finally:
            ray.kill(actor)

    def _follow(self, actor: Any, config: RunConfig, folder: Path, tell: Any) -> str:
        """Fetch what a run writes until it ends; return why it failed, or nothing."""
        own = read_pieces(folder, list_run_to_continue(config, folder))
        source, _, number = config.warm_start.partition("@")
        parent = Path(source)
        kept = list_parent(parent, int(number or 0)) if source else ()
        begun = actor.begin.remote(config.flat(), self.actors, own, read_pieces(parent, kept))
        host, home = ray.get(begun)
        tell(host=host)
        names = {f"{home}/{RUN}": str(folder), f"{home}/{PARENT}": source}
        ended = False
        while not ended:
            began = time.monotonic()
            pieces, ended, why = ray.get(actor.look.remote())
            receive(folder, pieces, names)
            took = time.monotonic() - began
            time.sleep(0 if ended else max(EVERY, took / SHARE))
        ray.get(actor.clear.remote())
        for there, here in names.items():
            why = why.replace(there, here)
        return str(why)


def need_of(config: RunConfig, actors: int, hosts: Sequence[Host]) -> Need:
    """Return what a run takes: cores for its clients, and a GPU if the cluster has some."""
    gpu = config.device != "cpu" and count_gpus(hosts)
    return Need(config.threads * actors, 1.0 if gpu else 0.0)


def list_run_to_continue(config: RunConfig, folder: Path) -> Sequence[Path]:
    """List the files of a run that goes on; a new one begins without any."""
    return list(list_run(folder)) if config.resume else []


def read_pieces(folder: Path, paths: Any) -> list[Piece]:
    """Read files of a folder as they travel."""
    return [Piece(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]


if __name__ == "__main__":
    serve()
