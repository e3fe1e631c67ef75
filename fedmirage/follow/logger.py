"""What a logger is. `ls fedmirage/follow/loggers` shows which there are.

A logger gets what results.jsonl has, in the process of the command, never in that of the training.
A new file in that folder with a subclass of `Logger` adds one, and `--log` knows it by the name of
the file.
"""

import importlib
import importlib.util
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedmirage.common.methods import find_class
from fedmirage.common.settings.language import nearest
from fedmirage.follow import loggers


@dataclass(frozen=True)
class Opening:
    """What a logger knows when it opens the log of a run."""

    folder: Path
    config: Mapping[str, Any]  # the first line of results.jsonl: all settings, versions, data
    logged: int  # the last round that the log has already; 0 for a new one
    identity: str  # what `begin` returned when this log was begun; "" for a new one

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.folder.name

    @property
    def group(self) -> str:
        """What runs of one comparison have in common."""
        return self.folder.parent.name


class Logger(ABC):
    """Receives one run; whatever it raises ends the log, and never the run."""

    module: ClassVar[str]
    """The module that must be there."""
    install: ClassVar[str]
    """What pip is to install to have it."""

    @abstractmethod
    def begin(self, opening: Opening) -> str:
        """Open a log, or one that there is again; return what identifies it for the next time."""

    @abstractmethod
    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Receive the metrics of one round, by names such as `accuracy` and `train.task`."""

    @abstractmethod
    def end(self, summary: Mapping[str, Any]) -> None:
        """Close the log; the summary is empty if the run has none yet."""


def list_loggers() -> list[str]:
    """List the names of all loggers."""
    return sorted(info.name for info in pkgutil.iter_modules(loggers.__path__))


def find_logger(name: str) -> type[Logger]:
    """Find a logger by its name."""
    module = importlib.import_module(f"{loggers.__name__}.{name}")
    return find_class(module, Logger)  # type: ignore[type-abstract]


def find_problems(names: Sequence[str]) -> list[str]:
    """Say which loggers are not known, and what the others lack on this machine."""
    problems = []
    for name in dict.fromkeys(names):
        if name not in list_loggers():
            problems.append(f"log: no logger is called {name!r}{nearest(name, list_loggers())}")
        elif not _is_installed((logger := find_logger(name)).module):
            problems.append(
                f"log={name!r} needs a package that is not installed;"
                f" get it with: pip install '{logger.install}'"
            )
    return problems


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package around it
        return False
