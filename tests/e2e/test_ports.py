"""Free ports, and processes that end too early: sentences, and nothing left running."""

import socket
from pathlib import Path

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.runtimes.grpc import Federation, free_addresses
from fedmirage.runtimes.superlink import PROGRAMS
from tests.support.commands import processes


def test_free_addresses_are_free_and_differ() -> None:
    addresses = free_addresses(20)
    assert len(set(addresses)) == 20
    for address in addresses[:3]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", int(address.rpartition(":")[2])))


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
