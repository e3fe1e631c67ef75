"""Faults at one site of a federation over gRPC: the run goes on, and nothing is lost."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedmirage.client.node.outgoing import FILE, UNWRITTEN
from fedmirage.common.settings.config import configure
from fedmirage.node.sent import read_entries
from fedmirage.runtimes.grpc import Federation, free_addresses
from tests.support.cables import Spread, lay_cables, plug_in, pull
from tests.support.commands import SETTINGS, command, rounds_done, wait_until
from tests.support.page import SITES, Page, open_page
from tests.support.runs import assert_same_bits, lines

pytestmark = pytest.mark.slow

PATIENCE = 400.0  # seconds; a busy machine needs minutes
LONG: dict[str, Any] = {**SETTINGS, "clients": 3, "participation": 1.0, "rounds": 2000}
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


class FarSites(Sites, Spread):
    """The same with a network namespace for every site."""


@contextmanager
def federation(
    tmp_path: Path, kind: type[Sites] = Sites, **settings: Any
) -> Iterator[tuple[Sites, Path]]:
    (tmp_path / "logs").mkdir()
    config = configure({**LONG, "out": str(tmp_path / "run"), **settings})
    sites = kind(tmp_path, tmp_path / "logs", verbose=False)
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


def await_return(run: Path) -> None:
    """Wait until all sites take part again; no round is missing, and none was done twice."""
    wait_until(lambda: takers(run) == [0, 1, 2], PATIENCE, "the site is back")
    numbers = [line["round"] for line in lines(run)]
    assert numbers == list(range(1, len(numbers) + 1))


def check_diary(folder: Path, run: Path) -> set[int]:
    """Check that a site has written down whatever counted; return the rounds that it trained in."""
    entries, damaged = read_entries(folder / FILE)
    assert not damaged
    sent = {entry["round"] for entry in entries if entry["message"] == "train"}
    took = [
        line["round"]
        for line in lines(run)
        for client in line["clients"]
        if client["partition"] == 1
    ]
    assert {*took} <= sent
    return sent


def test_a_link_that_is_down_for_a_minute(tmp_path: Path) -> None:
    with lay_cables(3), federation(tmp_path, FarSites, round_timeout=15) as (sites, run):
        pull(1)
        time.sleep(60)
        plug_in(1)
        first = wait_for(run, [0, 2])[0]
        assert [entry["partition"] for entry in first["refused"]] == [1]
        await_return(run)
    check_diary(sites.folder(1), run)


def test_a_site_that_sleeps_through_three_rounds(tmp_path: Path) -> None:
    with federation(tmp_path, round_timeout=15) as (sites, run):
        node = sites.processes["supernode-1"].pid
        os.killpg(node, signal.SIGSTOP)
        try:
            wait_for(run, [0, 2], count=3)
        finally:
            os.killpg(node, signal.SIGCONT)
        await_return(run)
    check_diary(sites.folder(1), run)


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
            await_return(run)
        assert first["round"] not in check_diary(disk, run)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """Three sites with keys and TLS, on a SuperLink with a database."""
    with open_page(tmp_path) as page:
        page.start_superlink()
        page.admit()
        page.start_nodes()
        yield page


def test_a_superlink_that_is_restarted_between_rounds(page: Page) -> None:
    """The run that it interrupted goes on, with the bits of one that nothing interrupted."""
    runs, rounds = page.folder / "server", 8
    page.start("server", command(*page.submit_words(rounds)), "submission")
    wait_until(lambda: rounds_done(runs / "first") >= 2, PATIENCE, "two rounds")
    page.running["server"].terminate()
    page.running["server"].wait(PATIENCE)
    assert rounds_done(runs / "first") < rounds
    page.start_superlink()
    for site in SITES:
        wait_until(partial(page.is_back, site), PATIENCE, site)
    assert page.running["submission"].wait(PATIENCE) == 1
    assert "submit federation --resume first" in page.said("submission")
    said = page.run("server", ["submit", "federation", "--resume", "first"])
    assert f"round {rounds}/{rounds}: accuracy" in said
    places = [str(page.folder / site / "pictures") for site in SITES]
    page.run("server", ["rehearse", *places, *page.submit_words(rounds, "second")[2:]])
    assert_same_bits(runs / "first", runs / "second")
    assert [line["round"] for line in lines(runs / "first")] == list(range(1, rounds + 1))
    assert all(len(line["clients"]) == 3 for line in lines(runs / "first"))


def test_a_key_that_is_used_by_two_nodes(page: Page) -> None:
    """The second node ends with a sentence, and the first one takes part in a run."""
    words = page.supernode_words("site-a")
    (words[words.index("--clientappio-api-address") + 1],) = free_addresses(1)
    assert page.start("site-a", command(*words), "again").wait(PATIENCE) == 1
    assert "if a node with this key runs or has just crashed" in page.said("again")
    assert "Traceback" not in page.said("again")
    page.run("server", page.submit_words(rounds=2))
    assert [len(line["clients"]) for line in lines(page.folder / "server" / "first")] == [3, 3]
