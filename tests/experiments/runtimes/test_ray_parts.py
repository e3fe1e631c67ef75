"""Ray starts without the processes that a run on one host never uses."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from ray import _raylet
from ray._private import node, services

from experiments.runtimes import ray_parts, stand_in
from experiments.runtimes.ray_parts import only_used_parts, replace_agents
from tests.support.commands import wait_until


@pytest.mark.parametrize("logs", [True, False])
def test_parts_are_left_out_while_ray_starts_and_there_again_later(logs: bool) -> None:
    names = [*ray_parts.UNUSED, "start_log_monitor", "start_raylet"]
    before = {name: getattr(node.Node, name) for name in names}
    process = services.start_ray_process
    with only_used_parts(logs):
        changed = {name for name in names if getattr(node.Node, name) is not before[name]}
        assert changed == set(names) - ({"start_log_monitor"} if logs else set())
        assert services.start_ray_process is not process
    assert {name: getattr(node.Node, name) for name in names} == before
    assert services.start_ray_process is process


def test_a_ray_of_another_build_starts_as_it_always_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_parts, "PORTS", {"NO_SUCH_PORT_NAME": -1})
    monkeypatch.setattr(ray_parts, "UNUSED", ("start_no_such_part",))
    start = node.Node.start_raylet
    with only_used_parts(logs=True):
        assert node.Node.start_raylet is start


def test_the_agents_are_replaced_and_nothing_else_of_a_command() -> None:
    seen: list[Any] = []
    words = ["raylet", "--runtime_env_agent_command=python agent.py", "--head"]
    replace_agents(lambda *given: seen.append(given))(words, "raylet")
    ((command, kind),) = seen
    assert [command[0], command[2], kind] == ["raylet", "--head", "raylet"]
    assert command[1].startswith("--runtime_env_agent_command=")
    assert command[1].endswith(stand_in.__file__)


def test_a_stand_in_ends_with_its_parent() -> None:
    """A shell starts one, says which process it is, and ends."""
    script = f"{sys.executable} -I -S {stand_in.__file__} >&2 & echo $!; sleep 0.5"
    parent = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    number = int(parent.stdout)

    def ended() -> bool:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(ended, 30, "the stand-in ends")


def test_ports_are_announced_before_the_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(_raylet, "persist_port", lambda *given: told.append(given))
    head = SimpleNamespace(get_session_dir_path=lambda: "/session", node_id="ab")
    start = ray_parts.announce_ports(lambda *_: told.append("started"))
    start(head, "plasma")
    assert told[-1] == "started"
    assert [given[:2] for given in told[:-1]] == [("/session", "ab")] * len(ray_parts.PORTS)
