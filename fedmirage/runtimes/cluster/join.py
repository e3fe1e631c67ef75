"""Joins a Ray cluster as it is, without changing its settings; what is wrong gets a sentence.

Ray itself waits for half a minute before it says that nobody answers, or that a token is wrong. So
the cluster is asked once before.
"""

import os
import re
import sys
from typing import Any

from fedmirage.common.errors import LONGEST, ConfigurationError
from fedmirage.runtimes.processes import environment
from fedmirage.runtimes.ray_start import QUIET, hush

KEY = "--ray-address"
VARIABLE = "RAY_ADDRESS"
AUTO = "auto"
ADDRESS = re.compile(r"(?P<host>[^\s:/]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[1-9][0-9]{0,4})")
ANSWER = 5.0  # seconds in which a cluster must answer
PYTHON = re.compile(r"Python: (\S+)")
CARRIED = ("PYTHONPATH", "FEDMIRAGE_PATH", *QUIET)  # variables that Ray's processes get for the run


def check_address(address: str) -> None:
    """Refuse what is no address."""
    match = ADDRESS.fullmatch(address)
    if address != AUTO and (match is None or int(match["port"]) > 65535):
        raise ConfigurationError(
            f"{name_address(address)}: write auto, or HOST:PORT as `ray start --head` prints it"
        )


def name_address(address: str) -> str:
    """Write an address as it was given: by the flag, or by the variable of Ray."""
    return f"{VARIABLE}={address}" if is_variable(address) else f"{KEY} {address}"


def is_variable(address: str) -> bool:
    """Whether an address stands in the variable, which may be meant for other programs."""
    return os.environ.get(VARIABLE) == address


def join(address: str, verbose: bool = False) -> str:
    """Join the cluster at an address, or the one of this host; return its address."""
    check_address(address)
    os.environ.update({key: os.environ.get(key, value) for key, value in QUIET.items()})
    import ray

    given = name_address(address)  # before the variable is put aside, and before auto is found
    found = find_address(address, given)
    require_same_ray(ask_version(found, given), given)
    known = environment()
    carried = {name: known[name] for name in CARRIED if name in known}
    try:
        ray.init(address=found, runtime_env={"env_vars": carried}, **hush(verbose))
    except Exception as error:
        raise ConfigurationError(explain(found, str(error), given)) from None
    return found


def find_address(address: str, given: str) -> str:
    """Return the address itself; for `auto`, that of the only cluster of which this host is one."""
    from ray._private.services import canonicalize_bootstrap_address_or_die

    if address != AUTO:
        return address
    variable = os.environ.pop(VARIABLE, None)  # Ray would prefer it
    try:
        return str(canonicalize_bootstrap_address_or_die(AUTO))
    except ConnectionError as error:
        several = "multiple" in str(error)
        raise ConfigurationError(
            f"{given}: this host belongs to {'several Ray clusters' if several else 'no Ray'}"
            f"{'' if several else ' cluster'}; write HOST:PORT of its head"
            f"{'' if several else ', after `ray start --address HOST:PORT` on this host'}"
        ) from None
    finally:
        if variable is not None:
            os.environ[VARIABLE] = variable


def ask_version(address: str, given: str) -> str:
    """Ask a cluster which version of Ray it runs; refuse an address where none answers."""
    import grpc  # type: ignore[import-untyped]
    from ray._private.grpc_utils import init_grpc_channel
    from ray.core.generated import gcs_service_pb2 as messages
    from ray.core.generated import gcs_service_pb2_grpc as services

    requests: Any = messages  # its classes are made when it is imported

    try:
        with init_grpc_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
            service: Any = services.NodeInfoGcsServiceStub(channel)  # type: ignore[no-untyped-call]
            answer = service.CheckAlive(requests.CheckAliveRequest(), timeout=ANSWER)
    except grpc.RpcError as error:
        raise ConfigurationError(explain_silence(error, given)) from None
    except Exception as error:  # Ray found that it has no token to send
        raise ConfigurationError(explain(address, str(error), given)) from None
    return str(answer.ray_version)


def explain_silence(error: Any, given: str) -> str:
    """Say why a cluster gave no answer."""
    import grpc

    if error.code() == grpc.StatusCode.UNAUTHENTICATED:
        return (
            f"{given}: the cluster refuses this command's token; set"
            " RAY_AUTH_MODE=token, and its token as RAY_AUTH_TOKEN or in the file"
            " RAY_AUTH_TOKEN_PATH"
        )
    return (
        f"{given}: no Ray cluster answers there; check the address, that `ray start"
        " --head` runs on that host, and that this host reaches its port"
    ) + (f'; {KEY} "" ignores the variable' if given.startswith(f"{VARIABLE}=") else "")


def require_same_ray(theirs: str, given: str) -> None:
    """Refuse a cluster of another version of Ray."""
    import ray

    if theirs != ray.__version__:
        raise ConfigurationError(
            f"{given}: the cluster runs Ray {theirs or 'of unknown version'}, and"
            f" this fedmirage needs {ray.__version__}; start the cluster from an environment"
            " with it"
        )


def explain(address: str, text: str, given: str) -> str:
    """Say in a sentence why Ray did not let this process in."""
    versions = PYTHON.findall(text)
    if "Version mismatch" in text and len(versions) == 2:
        own = ".".join(map(str, sys.version_info[:3]))
        return (
            f"{given}: the cluster runs Python {versions[0]}, and this command"
            f" {own}; start both from the same environment"
        )
    if "node_ip_address.json" in text or "IP address" in text or "raylet" in text.lower():
        return (
            f"{given}: this host does not belong to the cluster; run the command"
            f" on one that does, or let this one join with `ray start --address {address}"
            " --num-cpus 0`"
        )
    return f"{given}: Ray did not join it: {' '.join(text.split())[:LONGEST]}"
