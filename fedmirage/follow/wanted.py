"""What a command is asked to do beside its runs: log them, and serve their page."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from fedmirage.follow.following import Following
from fedmirage.follow.live import LivePage
from fedmirage.follow.logger import find_problems
from fedmirage.runtimes.observers import Observers


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
