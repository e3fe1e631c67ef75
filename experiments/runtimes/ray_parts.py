"""Keeps Ray's head node to the parts that a run on one host uses.

Ray starts up to five Python processes beside its own servers: an autoscaler, the server of the
dashboard, which runs even without one, what passes logs on to the driver, and two agents, for
metrics and for runtime environments. A run uses none of them, but Ray's start waits until they have
been loaded. No argument of `ray.init` leaves them out, so this changes Ray's own functions while it
starts. A Ray that lacks one of these functions starts as it always does.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from experiments.runtimes import stand_in

UNUSED = ("start_monitor", "start_api_server")
AGENTS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
# The ports at which agents would listen. Ray takes -1 for one that has none; that of the runtime
# environments is only asked if there are any, and must be a port.
PORTS = {
    "METRICS_AGENT_PORT_NAME": -1,
    "METRICS_EXPORT_PORT_NAME": -1,
    "DASHBOARD_AGENT_LISTEN_PORT_NAME": -1,
    "RUNTIME_ENV_AGENT_PORT_NAME": 1,
}


@contextlib.contextmanager
def only_used_parts(logs: bool) -> Iterator[None]:
    """Let `ray.init` start what a run uses; `logs` passes on what actors print."""
    from ray._private import node, services

    changes: list[tuple[Any, str, Any]] = [
        (node.Node, name, lambda *_, **__: None)
        for name in (*UNUSED, *([] if logs else ["start_log_monitor"]))
        if hasattr(node.Node, name)
    ]
    if can_replace_agents():
        changes += [
            (node.Node, "start_raylet", announce_ports(node.Node.start_raylet)),
            (services, "start_ray_process", replace_agents(services.start_ray_process)),
        ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for change in changes:
            setattr(*change)
        yield
    finally:
        for change in before:
            setattr(*change)


def can_replace_agents() -> bool:
    """Whether this Ray finds its agents as the one does for which this was written."""
    from ray import _raylet
    from ray._private import node, services

    needed = {
        _raylet: ("persist_port", *PORTS),
        node.Node: ("start_raylet",),
        services: ("start_ray_process",),
    }
    return all(hasattr(owner, name) for owner, names in needed.items() for name in names)


def announce_ports(start_raylet: Any) -> Any:
    """Return a `start_raylet` that writes what the agents would, for which Ray's server waits."""
    from ray import _raylet

    known: dict[str, Any] = vars(_raylet)

    def start(head: Any, *arguments: Any, **options: Any) -> Any:
        for name, port in PORTS.items():
            known["persist_port"](head.get_session_dir_path(), head.node_id, known[name], port)
        return start_raylet(head, *arguments, **options)

    return start


def replace_agents(start_ray_process: Any) -> Any:
    """Return a `start_ray_process` whose server has stand-ins for agents, because it ends without.

    They end with it, as the agents do.
    """
    program = subprocess.list2cmdline([sys.executable, "-I", "-S", stand_in.__file__])

    def start(command: list[str], *arguments: Any, **options: Any) -> Any:
        changed = [
            next((agent + program for agent in AGENTS if word.startswith(agent)), word)
            for word in command
        ]
        return start_ray_process(changed, *arguments, **options)

    return start
