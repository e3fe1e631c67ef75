"""A port that is taken, and processes that end too early: sentences, and nothing left running."""

import socket
from pathlib import Path

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.runtimes import grpc as deployment
from fedmirage.runtimes.grpc import Federation, free_addresses
from fedmirage.runtimes.superlink import PROGRAMS
from tests.support.commands import processes


def test_free_addresses_are_free_and_differ() -> None:
    addresses = free_addresses(20)
    assert len(set(addresses)) == 20
    for address in addresses[:3]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", int(address.rpartition(":")[2])))


def test_a_port_in_use_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = f"127.0.0.1:{taken.getsockname()[1]}"
        runtime, _, control, *nodes = free_addresses(4)
        monkeypatch.setattr(
            deployment, "free_addresses", lambda count: [runtime, used, control, *nodes]
        )
        federation = Federation(tmp_path, logs, verbose=False)
        with federation, pytest.raises(FedmirageError, match="is in use"):
            federation.start(configure({"clients": 1}), tmp_path / "memory")
        assert processes(f"FLWR_HOME={tmp_path}") == []


def test_a_process_that_ends_early_is_said_with_its_last_words(tmp_path: Path) -> None:
    federation = Federation(tmp_path, tmp_path, verbose=False)
    federation.spawn("superlink", str(PROGRAMS / "flower-superlink"), "--odd")
    with (
        federation,
        pytest.raises(
            FedmirageError,
            match=r"the superlink ended with code 2: .*unrecognized arguments: --odd",
        ),
    ):
        federation.await_port("superlink", free_addresses(1)[0])
    assert processes(f"FLWR_HOME={tmp_path}") == []
