"""Serves the report page of runs on loopback while they are under way.

The page asks for `/data.json` again and again and brings itself up to date. Nothing else is served,
nothing is read from disk by a name that a request contains, and requests are answered only if they
were made to this address: a page of another site that makes a browser look up its own name as
127.0.0.1 sends that name as the host.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.errors import ConfigurationError
from fedmirage.server.record.results import FILE

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")  # what a browser that was sent here calls it
DATA = "/data.json"
RECENT = 5.0  # seconds since its last question for which a page counts as open
PAUSE = 9.0  # between two times of gathering, as a multiple of the processor time that it took
LONGEST = 10.0  # seconds of such a pause
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LivePage:
    """The page of a command's runs. One that is open when they end still gets their last state."""

    def __init__(self, port: int, console: Console) -> None:
        self.port, self.console = port, console
        self.folders: list[Path] = []
        self.numbers = Numbers(self._list_begun)
        self.answered = threading.Condition()
        self.asked = float("-inf")  # when a page last asked for numbers
        self.over = False  # whether the runs have ended
        self.told = False  # whether a page has heard of it

    def add(self, folders: Iterable[Path]) -> None:
        """Show more runs, which need not have begun."""
        self.folders = list(dict.fromkeys([*self.folders, *folders]))

    def __enter__(self) -> "LivePage":
        try:
            self.server = Server((ADDRESS, self.port), _make_handler(self))
        except OSError as error:
            raise ConfigurationError(
                [f"watch-port={self.port} cannot be used ({error.strerror}); write another, or 0"]
            ) from None
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        text = f"watch: http://{ADDRESS}:{self.port}/ until this command ends"
        self.console.print(text, highlight=False, soft_wrap=True)
        return self

    def __exit__(self, *error: Any) -> None:
        self.over = True
        if error[0] is not KeyboardInterrupt:
            self._wait_for_open_pages()
        self.server.shutdown()
        self.server.server_close()

    def respond(self, path: str) -> tuple[str, str] | None:
        """Return the type and the content of one of the two things that there are."""
        from fedmirage.report.page import render

        if path not in ("/", DATA):
            return None
        found = self.numbers.gather(now=self.over)
        data = {**found, "going": found["going"] or not self.over}
        if path == DATA:
            return "application/json", json.dumps(data, allow_nan=False)
        return "text/html; charset=utf-8", render(data, live=True)

    def note_answer(self, path: str, over: bool) -> None:
        """Take note that a page has numbers, and whether they are the last ones."""
        if path == DATA:
            with self.answered:
                self.asked, self.told = time.monotonic(), self.told or over
                self.answered.notify_all()

    def _wait_for_open_pages(self) -> None:
        """Let a page that is open ask once more: its last answer may lack the last round."""
        with self.answered:
            if time.monotonic() - self.asked < RECENT:
                self.answered.wait_for(lambda: self.told, RECENT)

    def _list_begun(self) -> list[Path]:
        begun = [folder for folder in self.folders if (folder / FILE).exists()]
        return begun or self.folders[:1]  # the page says that it has no results yet


class Numbers:
    """What the page shows, gathered again only if a run has gone on.

    Gathering takes time from the runs, so that it waits in between, however many pages are open.
    """

    def __init__(self, list_folders: Callable[[], list[Path]]) -> None:
        self.list_folders = list_folders
        self.lock = threading.Lock()
        self.state: list[tuple[Path, int]] | None = None
        self.found: dict[str, Any] = {}
        self.due = float("-inf")  # not gathered again before

    def gather(self, now: bool) -> dict[str, Any]:
        """Return what the page shows, `now` or as of a short time ago."""
        from fedmirage.report.data import gather

        with self.lock:
            files = [folder / FILE for folder in self.list_folders()]
            state = [(file, file.stat().st_size if file.exists() else 0) for file in files]
            if state != self.state and (now or time.monotonic() > self.due):
                used = time.thread_time()
                self.found, self.state = gather([file.parent for file in files]), state
                pause = PAUSE * (time.thread_time() - used)
                self.due = time.monotonic() + min(pause, LONGEST)
            return self.found


class Server(ThreadingHTTPServer):
    """A server that answers what it was asked before it ends, and keeps quiet about its clients."""

    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the terminal for the progress of the runs."""


def _make_handler(page: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers GET, for the two paths, to requests made to this address."""

        server_version, sys_version = "fedmirage", ""
        timeout = RECENT  # of a browser that connects and asks nothing

        def do_GET(self) -> None:
            hosts = self.headers.get_all("Host", [])
            if len(hosts) != 1 or hosts[0] not in {f"{name}:{page.port}" for name in HOSTS}:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
                return
            over = page.over
            try:
                answer = page.respond(self.path)
            except Exception as error:  # a fault of the page is not one of the runs
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=repr(error))
                return
            if answer is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self.send(*answer)
            page.note_answer(self.path, over)

        def send(self, kind: str, content: str) -> None:
            """Send an answer."""
            body = content.encode()
            self.send_response(HTTPStatus.OK)
            for name, value in {**HEADERS, "Content-Type": kind}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Keep the terminal for the progress of the runs."""

    return Handler
