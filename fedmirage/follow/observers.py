"""Everything that follows the runs of one command, beside its progress bar."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from fedmirage.follow.following import Following
from fedmirage.follow.live import LivePage
from fedmirage.follow.logger import find_problems


class Observer(Protocol):
    """Follows runs by their folders, from when it is entered until it is left."""

    def add(self, folders: Iterable[Path]) -> None:
        """Follow more runs, which need not have begun."""

    def __enter__(self) -> Any:
        """Begin."""

    def __exit__(self, *error: Any) -> None:
        """Look for a last time, and end."""


class Observers:
    """Enters, tells and leaves several observers, or none."""

    def __init__(self, *observers: Observer) -> None:
        self.observers, self.stack = observers, ExitStack()

    def add(self, folders: Iterable[Path]) -> None:
        """Tell all of them to follow more runs."""
        found = list(folders)
        for observer in self.observers:
            observer.add(found)

    def __enter__(self) -> "Observers":
        for observer in self.observers:
            self.stack.enter_context(observer)
        return self

    def __exit__(self, *error: Any) -> None:
        self.stack.__exit__(*error)


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
