"""Replies that wait in files until they are averaged: the same bits, and nothing is left over."""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.quick import BASE, line
from fedmirage.server import run as server_run
from fedmirage.server.messages import store
from fedmirage.server.messages.store import FOLDER
from tests.support.inprocess import run_in_process
from tests.support.runs import assert_same_bits, lines, without_times

BRIEF = {**BASE, "rounds": 2, "reply_memory": 4}


@pytest.fixture
def filed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let the setting count kilobytes, of which a model here has three; return what was written."""
    written: list[Path] = []
    write = store.write_tensors

    def note(path: Path, tensors: Sequence[bytes]) -> object:
        written.append(path)
        return write(path, tensors)

    monkeypatch.setattr(server_run, "MEGABYTE", 1000)
    monkeypatch.setattr(store, "write_tensors", note)
    return written


@pytest.mark.parametrize(
    "methods",
    [
        "fedavg",
        f"{line('scaffold')}, {line('fedavgm')}",
        *map(line, ("fednova", "fedexp", "feddyn", "trimmed-mean", "fedgen", "fedmd-cg")),
    ],
)
def test_files_change_no_bit(methods: str, tmp_path: Path, filed: list[Path]) -> None:
    settings = {**BASE, "methods": methods, "diagnostics": True}
    run_in_process(tmp_path / "memory", **settings)
    assert not filed
    run_in_process(tmp_path / "files", **settings, reply_memory=4)
    assert len(filed) >= 6  # of eight replies in two rounds, and the first of each may stay
    assert_same_bits(tmp_path / "memory", tmp_path / "files")
    assert without_times(tmp_path / "memory") == without_times(tmp_path / "files")
    assert not (tmp_path / "files" / FOLDER).exists()


def test_a_full_disk_is_a_sentence(
    tmp_path: Path, filed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, tensors: Sequence[bytes]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    run_in_process(tmp_path, **{**BRIEF, "rounds": 1})
    monkeypatch.setattr(store, "write_tensors", write)
    told = f"No space left on device while writing {tmp_path / FOLDER}.*--resume {tmp_path}"
    with pytest.raises(FedmirageError, match=told):
        run_in_process(tmp_path, **BRIEF, resume=str(tmp_path))
    assert re.search("No space left", lines(tmp_path, "summary")[-1]["reason"])


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "000001.safetensors").write_bytes(b"half")
    run_in_process(tmp_path, **{**BRIEF, "rounds": 1})
    assert not (tmp_path / FOLDER).exists()


def test_a_server_that_sees_sums_has_no_replies_to_keep() -> None:
    with pytest.raises(ConfigurationError, match=r"reply-memory=5 .*secagg='on'.*reply-memory=0"):
        configure({"reply_memory": 5, "secagg": "on"})
