"""The process in which a run takes place: checks first, then server and simulated clients.

The command that a person types computes nothing: it starts this program, watches it and ends it.
So the command, or a notebook, can be interrupted at any moment, whatever Ray, Flower or torch are
doing. The request comes as JSON on standard input; messages go back through a pipe, as lines of
JSON.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedmirage.client.node.redaction import VARIABLE
from fedmirage.common.errors import (
    TRACEBACK,
    ConfigurationError,
    FedmirageError,
    collect,
    reason,
    refuse,
)
from fedmirage.common.settings.config import RunConfig, validate
from fedmirage.runtimes.breakpoints import Debugger
from fedmirage.runtimes.simulation import plan_actors, simulate, start_early
from fedmirage.runtimes.sites import Sites
from fedmirage.server.record.folder import explain, is_mistake


def serve() -> None:
    """Read a request and do what it asks for."""
    request = json.load(sys.stdin)
    writer, terminal = request.pop("pipe"), request.pop("terminal")
    for descriptor in (writer, *terminal):
        os.set_inheritable(descriptor, False)
    with os.fdopen(writer, "w", buffering=1) as pipe:

        def tell(**line: Any) -> None:
            pipe.write(json.dumps(line) + "\n")

        with ending_process(tell):
            if terminal:
                sys.breakpointhook = Debugger(tell, terminal)
            (check_all if "configs" in request else conduct)(tell, **request)


@contextmanager
def ending_process(tell: Any) -> Iterator[None]:
    """Say why the work of this process failed, and end it; the exit code is 0 if it went well."""
    code = 1
    try:
        yield
        code = 0
    except ConfigurationError as error:
        tell(problems=error.problems)
    except (FedmirageError, OSError) as error:  # a full disk is not a fault of this program
        tell(failure=reason(error))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of Ray and Flower may wait for something that never comes


def conduct(
    tell: Any,
    config: dict[str, Any],
    folder: str,
    runtime: str,
    actors: int,
    verbose: bool,
    sites: Sites = (),
    ray_address: str = "",
) -> None:
    """Check the request, say where the run takes place, and run it unless others do (grpc)."""
    settings = validate(config)
    traceback_file = Path(folder).absolute() / TRACEBACK
    traceback_file.unlink(missing_ok=True)  # of an earlier attempt
    os.environ[VARIABLE] = str(traceback_file)  # clients on this host may say what they raise
    started = planned = None
    problems: list[str] = []
    if runtime == "simulation" and not ray_address:
        started = start_early(settings, verbose, actors)  # a refusal ends Ray with this process
    with collect(problems):
        weights = check(settings, Path(folder), actors, sites)
    if ray_address:
        from fedmirage.runtimes.cluster.room import plan_crew, simulate_on_cluster

        with collect(problems):
            planned = plan_crew(settings, Path(folder), ray_address, actors, verbose)
    refuse(problems)
    if settings.keep_models == "all":
        tell(say=estimate_space(settings, weights))
    if runtime == "grpc":
        return
    chosen, why = choose(settings) if runtime == "auto" else (runtime, "")
    tell(say=str(planned) if planned else f"{chosen}: {plan_actors(settings, actors)}{why}")
    if not verbose:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
    try:
        if planned:
            simulate_on_cluster(planned)
        elif chosen == "inprocess":
            from fedmirage.runtimes.inprocess import run_in_process

            run_in_process(settings, plan_actors(settings, actors).actors, sites)
        else:
            simulate(settings, verbose, actors, started, sites)
    except Exception as error:
        if is_mistake(error):  # the folder has its traceback
            raise FedmirageError(explain(error, traceback_file.parent)) from error
        raise


def check(config: RunConfig, folder: Path, actors: int, sites: Sites = ()) -> int:
    """Refuse all problems at once, before anything starts; return the bytes of a model."""
    from fedmirage.server.start import check_run

    problems: list[str] = []
    if actors < 0:
        problems.append(
            f"actors={actors}: write how many clients may train at a time, or 0 for one per core"
        )
    with collect(problems):
        size = check_run(config, folder, divides=not sites).size
    refuse(problems)
    return 4 * size


def check_all(tell: Any, configs: list[dict[str, Any]], verbose: bool) -> None:
    """Refuse what does not fit the data or this machine in any run of a comparison."""
    problems: list[str] = []
    for config in map(validate, configs):
        with collect(problems):
            check(config, Path(config.out), actors=0)
    refuse(problems)


def choose(config: RunConfig) -> tuple[str, str]:
    """Choose the runtime of `auto`, and say why: Ray shares GPUs, and starts later without them."""
    from fedmirage.common import device

    place = device.pick(config.device).type
    if place != "cpu":
        return "simulation", f" (the run computes on {place}; --runtime chooses another runtime)"
    return "inprocess", " (on the CPU it starts sooner than Ray; --runtime simulation would use it)"


def estimate_space(config: RunConfig, weights: int) -> str:
    """Say how much disk space keep-models=all needs at least.

    A method that remembers more than the local model adds to it.
    """
    models = config.rounds * weights
    memories = models * config.drawn
    return (
        f"keep-models=all: at least {(models + memories) / 1e6:.0f} MB by the last round"
        f" ({models / 1e6:.0f} MB of global models, {memories / 1e6:.0f} MB that clients remember)"
    )


if __name__ == "__main__":
    serve()
