"""What a command is asked to do beside its runs: log them, and serve their page.

Runs are followed by their folders, in a thread of the command. A logger is given what it does not
have yet of a run, also after the command was started again.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError
from fedmirage.follow.live import LivePage
from fedmirage.follow.logger import Logger, Opening, find_logger, find_problems
from fedmirage.records.flat import round_metrics, site_metrics
from fedmirage.records.lines import Lines, read_record
from fedmirage.runtimes.observers import Observers
from fedmirage.server.record.results import FILE


@dataclass(frozen=True)
class Wanted:
    """What a command is asked to do beside its runs."""

    log: Sequence[str] = ()  # names of loggers
    watch: bool = False
    watch_port: int = 0  # 0 takes one that is free

    def find_problems(self) -> list[str]:
        """Say what of it cannot be done."""
        problems = find_problems(self.log)
        if not 0 <= self.watch_port < 2**16:
            problems.append(f"watch-port={self.watch_port}: write a port up to 65535, or 0")
        elif self.watch_port and not self.watch:
            problems.append(f"watch-port={self.watch_port} does nothing without watch; add it")
        return problems

    def make(self, console: Console) -> Observers:
        """Make the observers."""
        logs = [Following(self.log, console)] if self.log else []
        pages = [LivePage(self.watch_port, console)] if self.watch else []
        return Observers(*logs, *pages)


LOGGED = "logged.json"  # in the folder of a run: what each logger has


class Journal:
    """One run and one logger.

    The file results.jsonl alone decides what there is to do, so that it does not matter whether a
    run is new, goes on, or was finished before anybody asked for a log of it.
    """

    def __init__(self, folder: Path, name: str, kind: type[Logger]) -> None:
        self.folder, self.name, self.kind = folder, name, kind
        self.size = 0  # of results.jsonl, when it was last read
        self.logger: Logger | None = None  # while the log is open

    def look(self) -> None:
        """Log what is new in results.jsonl."""
        path = self.folder / FILE
        size = path.stat().st_size if path.exists() else 0
        if size == self.size:
            return
        self.size = size
        with contextlib.suppress(DataError):  # the command itself names a damaged file
            if lines := read_record(self.folder):
                self._log(lines)

    def close(self) -> None:
        """Close the log of a run that is not over."""
        if self.logger is not None:
            self.logger.end({})
            self.logger = None

    def _log(self, lines: Lines) -> None:
        config = lines[0]
        rounds = [line for line in lines if line["kind"] == "round"]
        scored = max((line["round"] for line in lines if line["kind"] == "held_out"), default=0)
        last = rounds[-1]["round"] if rounds else 0
        summary = lines[-1] if lines[-1]["kind"] == "summary" else {}
        ending = f"{summary['status']} {last}" if summary else ""
        state = self._read_state(config.get("resolved", {}).get("token", ""))
        if last < state["round"]:  # a run that goes on may take rounds back
            state |= {"round": last, "held_out": min(last, state["held_out"])}
            self._write_state(state)
        known = {"round": state["round"], "held_out": state["held_out"]}
        new = [line for line in lines if line.get("round", 0) > known.get(line["kind"], inf)]
        if not new and ending in ("", state["ended"]):
            return
        if self.logger is None:
            self.logger = self.kind()
            opening = Opening(self.folder, config, state["round"], state["identity"])
            state["identity"] = self.logger.begin(opening)
        for line in new:
            metrics = round_metrics(line) if line["kind"] == "round" else site_metrics(line)
            self.logger.log_round(line["round"], metrics)
        if summary:
            self.logger.end(summary)
            self.logger = None
        ended = ending or state["ended"]
        self._write_state({**state, "round": last, "held_out": scored, "ended": ended})

    def _read_state(self, token: str) -> dict[str, Any]:
        """Return what the logger has of this run; of another run in the same folder, nothing."""
        new = {"token": token, "identity": "", "round": 0, "held_out": 0, "ended": ""}
        state = {**new, **self._read_states().get(self.name, {})}
        return state if state["token"] == token else new

    def _write_state(self, state: dict[str, Any]) -> None:
        states = {**self._read_states(), self.name: state}
        write_whole(self.folder / LOGGED, json.dumps(states, indent=1).encode() + b"\n")

    def _read_states(self) -> dict[str, Any]:
        path = self.folder / LOGGED
        return json.loads(path.read_text()) if path.exists() else {}


POLL = 0.5
PATIENCE = 60.0  # seconds after the end for loggers that send what they have


class Following:
    """The loggers of a command. One that fails is named once and left out; the runs go on."""

    def __init__(self, names: Sequence[str], console: Console) -> None:
        self.kinds = {name: find_logger(name) for name in names}
        self.console = console
        self.journals: dict[tuple[Path, str], Journal] = {}
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def add(self, folders: Iterable[Path]) -> None:
        """Follow more runs, which need not have begun."""
        added = {
            (folder, name): Journal(folder, name, kind)
            for folder in folders
            for name, kind in self.kinds.items()
        }
        self.journals = {**added, **self.journals}  # a new one: the thread may be reading the old

    def __enter__(self) -> "Following":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            self._say(f"log: gave up waiting after {PATIENCE:.0f} s, so a log may lack its end")

    def _follow(self) -> None:
        while not self.stopped.wait(POLL):
            self._attempt(Journal.look)
        self._attempt(Journal.look)
        self._attempt(Journal.close)

    def _attempt(self, work: Callable[[Journal], None]) -> None:
        for (_, name), journal in self.journals.items():
            if name not in self.kinds:
                continue
            try:
                work(journal)
            except Exception as error:  # whatever a logger raises must not end the run
                del self.kinds[name]
                self._say(f"log: {name} failed and is left out from now on: {error!r}")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            self.console.print(text, style="yellow", highlight=False, markup=False)
