"""What may follow the runs of a command beside its progress bar; follow/ has those there are."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self


class Observer(Protocol):
    """Follows runs by their folders, from when it is entered until it is left."""

    def add(self, folders: Iterable[Path]) -> None:
        """Follow more runs, which need not have begun."""

    def __enter__(self) -> Any:
        """Begin."""

    def __exit__(self, *error: Any) -> None:
        """Look for a last time, and end."""


class Observers(ExitStack):
    """Enters, tells and leaves several observers, or none."""

    def __init__(self, *observers: Observer) -> None:
        super().__init__()
        self.observers = observers

    def add(self, folders: Iterable[Path]) -> None:
        """Tell all of them to follow more runs."""
        found = list(folders)
        for observer in self.observers:
            observer.add(found)

    def __enter__(self) -> Self:
        for observer in self.observers:
            self.enter_context(observer)
        return self
