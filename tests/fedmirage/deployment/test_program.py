"""`fedmirage superlink`: which program it becomes, and what it refuses before."""

import os
import shlex
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedmirage.cli import app
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.deployment.link import Home, find_link

FREE = ["--fleet-api-address", "127.0.0.1:0", "--control-api-address", "127.0.0.1:0"]
FREE += ["--serverappio-api-address", "127.0.0.1:0"]


class Became(Exception):  # noqa: N818 - it is no error
    """What this process would have become."""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def become(path: Path, words: list[str], variables: dict[str, str]) -> None:
        raise Became(path, words, variables)

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.chdir(tmp_path)

    def started(*words: str) -> tuple[list[str], dict[str, str]]:
        with pytest.raises(Became) as end:
            app(["superlink", *words], standalone_mode=False)
        _, arguments, variables = end.value.args
        return arguments[1:], variables

    return started


def test_it_has_tls_keys_and_a_database_and_says_so(
    start: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words, variables = start("here", *FREE, "--host", "fl.example.org")
    home = Home(tmp_path / "here")
    assert "--enable-supernode-auth" in words
    assert "--insecure" not in words
    assert words[words.index("--database") + 1] == str(home.database)
    assert variables["FEDMIRAGE_NODES"] == str(home.nodes)
    assert variables["FLWR_HOME"] == str(home.flower)
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("starts: ")]
    shown = shlex.split(line.removeprefix("starts: "))
    assert shown[shown.index("flower-superlink") + 1 :] == words
    assert f"FEDMIRAGE_NODES={home.nodes}" in shown
    assert home.nodes.read_text() == ""  # nobody is admitted yet


def test_orders_come_from_this_machine_only_by_default(start: Any) -> None:
    words, _ = start("here")
    assert words[words.index("--control-api-address") + 1] == "127.0.0.1:9093"
    assert words[words.index("--serverappio-api-address") + 1] == "127.0.0.1:9091"
    assert words[words.index("--fleet-api-address") + 1] == "0.0.0.0:9092"


def test_insecure_only_on_request_and_never_beside_certificates(start: Any, tmp_path: Path) -> None:
    words, variables = start("open", *FREE, "--insecure")
    assert "--insecure" in words
    assert "FEDMIRAGE_NODES" not in variables
    assert find_link("open").insecure
    start("closed", *FREE)
    with pytest.raises(ConfigurationError, match=r"--insecure: .* has certificates"):
        app(["superlink", "closed", "--insecure", *FREE], standalone_mode=False)


def test_taken_ports_are_said_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["superlink", str(tmp_path / "here"), *FREE, "--fleet-api-address", address]
        with pytest.raises(ConfigurationError) as error:
            app([*words, "--control-api-address", "nonsense"], standalone_mode=False)
    assert f"--fleet-api-address {address}: another program" in error.value.problems[0]
    assert "--control-api-address nonsense: write HOST:PORT" in error.value.problems[1]
    assert not (tmp_path / "here").exists()


def test_flowers_own_command_line_finds_it(start: Any, tmp_path: Path) -> None:
    start("here", *FREE, "--control-api-address", "0.0.0.0:0")
    home = Home(tmp_path / "here")
    link = find_link("here")
    assert (link.address, link.root) == ("127.0.0.1:0", home.certificates / "ca.crt")
    entry = tomllib.loads(home.connection.read_text())["superlink"]
    assert entry["here"]["root-certificates"] == str(link.root)
    assert link.environment["FLWR_HOME"] == str(home.flower)


def test_revoking_and_admitting_are_two_commands(start: Any) -> None:
    start("federation", *FREE)
    with pytest.raises(FedmirageError, match="are two commands; revoke first"):
        app(["admit", "site-a.pub", "--revoke", "site-b"], standalone_mode=False)
    with pytest.raises(FedmirageError, match="nothing is asked for"):
        app(["admit"], standalone_mode=False)


@pytest.mark.parametrize("words", [["admit", "site-a.pub"], ["admit"]])
def test_without_a_superlink_nobody_is_admitted(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedmirageError, match="no SuperLink was started there"):
        app(words, standalone_mode=False)


def test_a_superlink_that_does_not_run_is_said(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("federation", *FREE, "--control-api-address", "127.0.0.1:1")
    monkeypatch.setattr("fedmirage.deployment.link.PATIENCE", 0.3)
    with pytest.raises(FedmirageError, match=r"127.0.0.1:1 does not answer"):
        app(["admit", "site-a.pub"], standalone_mode=False)
