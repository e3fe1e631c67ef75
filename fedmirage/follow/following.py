"""Follows runs by their folders, in a thread of the command, and tells loggers about them."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console

from fedmirage.follow.journal import Journal
from fedmirage.follow.logger import find_logger

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
