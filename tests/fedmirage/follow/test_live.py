"""The page that is served while runs are under way: what it answers, and what it refuses."""

import http.client
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedmirage.common.errors import ConfigurationError
from fedmirage.follow.live import LivePage
from fedmirage.follow.wanted import Wanted
from tests.support.commands import wait_until
from tests.support.comparison import plan_records, read_lines, write_lines, write_records


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that has not begun."""
    return tmp_path / "fedavg-seed0"


@pytest.fixture
def lines(run: Path) -> list[dict[str, Any]]:
    """What it will write."""
    write_records(plan_records(run.parent, seeds="0"))
    written = read_lines(run)
    (run / "results.jsonl").unlink()
    return written


@pytest.fixture
def page(run: Path) -> Iterator[LivePage]:
    live = LivePage(0, Console(file=io.StringIO(), width=200))
    live.add([run])
    with live:
        yield live
        live.asked = float("-inf")  # nobody is left who would be waited for


def ask(
    page: LivePage, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def data(page: LivePage) -> dict[str, Any]:
    answer, text = ask(page, "/data.json")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    return json.loads(text)


def test_before_the_first_round_it_says_that_there_is_nothing_yet(page: LivePage) -> None:
    answer, text = ask(page, "/")
    assert answer.status == 200
    assert "There are no results in" in text
    assert 'data-live="true"' in text
    found = data(page)
    assert found["going"]
    assert found["plots"] == {}


def test_a_round_that_is_written_appears(page: LivePage, run: Path, lines: list[Any]) -> None:
    write_lines(run, lines[:1])
    assert not any(name.endswith("curves") for name in data(page)["plots"])
    page.numbers.due = float("-inf")  # do not wait
    write_lines(run, lines[:3])
    found = data(page)
    assert "group-1-curves" in found["plots"]
    assert found["title"] == "fedavg"
    assert found["going"]


def test_gathering_waits_in_between(
    page: LivePage, run: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered = []

    def gather(folders: list[Path]) -> dict[str, Any]:
        gathered.append(folders)
        end = time.thread_time() + 0.2  # of work
        while time.thread_time() < end:
            pass
        return {"going": False}

    monkeypatch.setattr("fedmirage.report.data.gather", gather)
    for count in (1, 2, 3):
        write_lines(run, lines[:count])
        page.numbers.gather(now=False)
    assert len(gathered) == 1
    page.numbers.gather(now=True)
    page.numbers.gather(now=True)  # nothing has changed since
    assert len(gathered) == 2


@pytest.mark.parametrize("path", ["/results.jsonl", "/data.json?x=1", "/../lines", "/index.html"])
def test_nothing_else_is_served(page: LivePage, path: str) -> None:
    assert ask(page, path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_answered(page: LivePage, method: str) -> None:
    assert ask(page, "/data.json", method)[0].status == 501


def test_only_requests_to_this_address_are_answered(page: LivePage) -> None:
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1", "localhost:1", ""):
        answer, text = ask(page, "/data.json", Host=host)
        assert answer.status == 421
        assert "html" in text
        assert "plots" not in text
    answer, _ = ask(page, "/data.json", Host=f"localhost:{page.port}")
    assert answer.status == 200
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_it_listens_on_loopback_and_stops_with_the_command(run: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    with LivePage(0, console) as live:
        live.add([run])
        assert live.server.server_address[0] == "127.0.0.1"
        said = console.file.getvalue()  # type: ignore[attr-defined]
        assert f"http://127.0.0.1:{live.port}/ until this command ends" in said
    with pytest.raises(ConnectionRefusedError):
        ask(live, "/")


def test_a_page_that_is_open_hears_of_the_end(
    run: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks every two seconds, and the last round would be lost without a wait."""
    monkeypatch.setattr("fedmirage.follow.live.RECENT", 60.0)  # a busy machine takes its time
    answers = []

    def ask_after_the_end() -> None:
        wait_until(lambda: live.over, 60, "the end")
        answers.append(data(live))

    with LivePage(0, Console(quiet=True)) as live:
        live.add([run])
        answers.append(data(live))
        write_lines(run, lines)
        asking = threading.Thread(target=ask_after_the_end)
        asking.start()
    asking.join()
    assert [answer["going"] for answer in answers] == [True, False]
    assert "group-1-curves" in answers[1]["plots"]


def test_a_fault_of_the_page_is_not_one_of_the_command(
    page: LivePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.report.data.gather", lambda folders: 1 / 0)
    answer, text = ask(page, "/data.json")
    assert answer.status == 500
    assert "ZeroDivisionError" in text


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"watch-port={port} cannot be used"):
            LivePage(port, Console(quiet=True)).__enter__()
    assert Wanted(watch=True, watch_port=port).find_problems() == []
    assert "does nothing without watch" in Wanted(watch_port=port).find_problems()[0]
    assert "up to 65535" in Wanted(watch=True, watch_port=70000).find_problems()[0]
