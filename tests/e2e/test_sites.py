"""Faults at one site of a federation over gRPC: the run goes on, and nothing is lost."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedmirage.client.node.outgoing import FILE, UNWRITTEN
from fedmirage.common.settings.config import configure
from fedmirage.node.sent import read_entries
from fedmirage.runtimes.grpc import Federation
from tests.support.commands import SETTINGS, wait_until
from tests.support.runs import lines

pytestmark = pytest.mark.slow

PATIENCE = 400.0  # seconds; a busy machine needs minutes
LONG: dict[str, Any] = {**SETTINGS, "clients": 3, "participation": 1.0, "rounds": 500}
SIZE = 2**25


class Sites(Federation):
    """A federation whose SuperLink keeps a database, and whose sites have folders of their own."""

    def spawn(self, name: str, *command: str) -> None:
        if name == "superlink":
            return super().spawn(name, *command, "--database", str(self.home / "link.db"))
        site = name.removeprefix("supernode-")
        return super().spawn(name, *(word.replace("/memory", f"/site-{site}") for word in command))

    def folder(self, site: int) -> Path:
        return self.home / f"site-{site}"


@contextmanager
def federation(tmp_path: Path, **settings: Any) -> Iterator[tuple[Sites, Path]]:
    (tmp_path / "logs").mkdir()
    config = configure({**LONG, "out": str(tmp_path / "run"), **settings})
    sites = Sites(tmp_path, tmp_path / "logs", verbose=False)
    with sites:
        sites.start(config, tmp_path / "memory")
        sites.submit(config)
        wait_until(lambda: takers(tmp_path / "run") == [0, 1, 2], PATIENCE, "a whole round")
        yield sites, tmp_path / "run"


def takers(run: Path) -> list[int]:
    """Who took part in the last round."""
    done = lines(run) if (run / "results.jsonl").exists() else []
    return [client["partition"] for client in done[-1]["clients"]] if done else []


def wait_for(run: Path, clients: list[int], count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many rounds had just these clients; return these rounds."""

    def found() -> list[dict[str, Any]]:
        of = [[client["partition"] for client in line["clients"]] for line in lines(run)]
        return [line for line, here in zip(lines(run), of, strict=True) if here == clients]

    wait_until(lambda: len(found()) >= count, PATIENCE, f"{count} rounds of {clients}")
    return found()


def test_a_site_whose_disk_is_full_sends_nothing_until_there_is_space(tmp_path: Path) -> None:
    disk = tmp_path / "site-1"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here; root can do it")
    try:
        with federation(tmp_path) as (_, run):
            filler = disk / "filler"
            filler.write_bytes(b"")
            with filler.open("r+b") as file:
                free = os.statvfs(disk)
                os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize)
            # what is left of the last page of the file is soon used up
            first = wait_for(run, [0, 2])[0]
            told = [entry["reason"] for entry in first["refused"] if entry["partition"] == 1]
            assert UNWRITTEN in told[0]
            filler.unlink()
            before = len(lines(run))
            wait_until(lambda: takers(run) == [0, 1, 2], PATIENCE, "the site is back")
            assert len(lines(run)) >= before
        entries, damaged = read_entries(disk / FILE)
        assert not damaged
        sent = {entry["round"] for entry in entries if entry["message"] == "train"}
        took = {
            line["round"]
            for line in lines(run)
            for client in line["clients"]
            if client["partition"] == 1
        }
        assert took <= sent
        assert first["round"] not in sent
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
