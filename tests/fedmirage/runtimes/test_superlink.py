"""Flower's command line, when it does not answer."""

import os
from pathlib import Path

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.runtimes import superlink
from fedmirage.runtimes.superlink import SuperLink


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("kill -9 $$", "flwr list failed: it ended with code -9"),
        ("echo no >&2; exit 1", "flwr list failed: no"),
        ("exec sleep 60", r"flwr list did not answer within 1 s; see its\.log"),
    ],
)
def test_a_command_that_fails_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, reason: str
) -> None:
    (tmp_path / "flwr").write_text(f"#!/bin/sh\n{does}\n")
    (tmp_path / "flwr").chmod(0o755)
    monkeypatch.setattr(superlink, "PROGRAMS", tmp_path)
    monkeypatch.setattr(superlink, "ANSWER", 1.0)
    link = SuperLink("local", os.environ, "its.log")
    with pytest.raises(FedmirageError, match=reason):
        link.flwr("list")
    assert link.find_run("1") == {}


def test_a_run_that_nobody_takes_up_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SuperExec of the SuperLink was killed before it started the ServerApp."""
    link = SuperLink("local", os.environ, "its.log", every=0.1)
    monkeypatch.setattr(link, "find_run", lambda run_id: {"status": "pending"})
    monkeypatch.setattr(link, "start_within", 0.5)
    with pytest.raises(FedmirageError, match="has not begun the run within 0 s; its SuperExec"):
        link.wait("1", tmp_path)


def test_a_summary_from_before_a_resumption_counts_only_if_the_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = {"status": "interrupted"}
    monkeypatch.setattr(superlink, "find_summary", lambda folder: earlier)
    status = iter(["pending", "running", "finished:failed"])
    link = SuperLink("local", os.environ, "its.log", every=0.0)
    monkeypatch.setattr(link, "find_run", lambda run_id: {"status": next(status)})
    assert link.wait("1", tmp_path, earlier) == earlier
    assert next(status, None) is None


def test_a_superlink_that_is_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superlink, "GONE", 0.1)
    link = SuperLink("local", os.environ, "its.log", every=0.0)
    monkeypatch.setattr(link, "find_run", lambda run_id: {})
    with pytest.raises(FedmirageError, match=r"has not answered for 0 s; see its\.log\."):
        link.wait("1", tmp_path)
