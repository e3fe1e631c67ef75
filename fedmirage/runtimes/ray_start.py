"""Starts Ray, for as many actors as a run needs, and for nobody but this run."""

import logging
import os
import secrets
from typing import Any

from fedmirage.common.cores import cores
from fedmirage.common.errors import LONGEST, FedmirageError
from fedmirage.common.settings.config import RunConfig

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
TOKEN = secrets.token_hex(32)  # Ray remembers the first one that it reads in a process
# Whoever reaches Ray's ports can run programs here. Despite its name, this variable decides on
# every system whether Ray's processes listen on the network or on this host only.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
# A reply of up to 8 MB comes with the answer to a call. Ray would put one of more than 100 kB into
# its store, where keeping account of it costs more than copying it. Ray would also give actors a
# lower priority than anything else on this host; here they do the work, so they have the run's own.
SYSTEM = {"max_direct_call_object_size": 8_000_000, "worker_niceness": 0}


def count_actors(config: RunConfig, actors: int = 0) -> int:
    """Count as many actors as there are cores for their threads, or as many as were asked for.

    There are never more of them than clients that train in a round.
    """
    return min(config.drawn, actors or max(1, cores() // config.threads))


def prepare_ray() -> None:
    """Set what Ray reads when it is first imported.

    The token is new in every process: other users of this host cannot talk to its runs either.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in QUIET.items()})
    os.environ.update(LOOPBACK, RAY_AUTH_TOKEN=TOKEN)


def start_ray(config: RunConfig, actors: int = 0, verbose: bool = False) -> None:
    """Start Ray on this host: one Ray "CPU" is one actor, so that exactly as many fit.

    Ray finds the GPUs itself, unless the run leaves them alone.
    """
    prepare_ray()
    import ray

    options: dict[str, Any] = {"num_cpus": max(1, count_actors(config, actors)), **hush(verbose)}
    options |= {"num_gpus": 0} if config.device == "cpu" else {}
    try:
        # RAY_ADDRESS may name a cluster, which is not meant here
        ray.init(address="local", include_dashboard=False, _system_config=SYSTEM, **options)
    except Exception as error:  # one of its own processes has ended, or did not start in time
        reason = " ".join(str(error).split())
        raise FedmirageError(
            f"Ray did not start: {reason[:LONGEST]}; run it again, or use --runtime inprocess"
        ) from error


def hush(verbose: bool) -> dict[str, Any]:
    """Return the options with which Ray keeps its messages to itself, unless they are asked for."""
    return {} if verbose else {"logging_level": logging.CRITICAL, "log_to_driver": False}
