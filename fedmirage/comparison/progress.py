"""Shows how far a comparison is: one bar for all of its runs, with the time that is left."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from fedmirage.common.errors import DataError
from fedmirage.comparison.plan import Job
from fedmirage.records.lines import is_finished, read_rounds
from fedmirage.server.record.results import FILE
from fedmirage.show.bar import Follower, is_interactive
from fedmirage.show.words import say, say_time

NAME = 16  # characters of a methods line beside the bar
SHOWN = 2  # runs under way that are named there
EVERY = 60.0  # seconds between two lines where there is no bar
FAR = 1.25  # a factor by which an estimate may be wrong without a word about it


class Track:
    """How far one run is, by its file."""

    def __init__(self, job: Job) -> None:
        self.job, self.size, self.finished = job, 0, False
        self.round = job.config.rounds - job.rounds  # what it takes over is done from the start
        self.began: tuple[float, int] | None = None  # when, and after which round
        self.cost: float | None = None  # seconds per round

    def look(self, running: bool) -> None:
        """Read the file again if it has grown."""
        now, path = time.monotonic(), self.job.folder / FILE
        if running and self.began is None:
            self.began = (now, self.round)
        size = path.stat().st_size if path.exists() else 0
        if size == self.size:
            return
        self.size = size
        with contextlib.suppress(DataError):  # it is named where runs are begun
            rounds = [int(line["round"]) for line in read_rounds(self.job.folder)]
            self.round = max([self.job.config.rounds - self.job.rounds, *rounds])
            self.finished = is_finished(self.job.folder, self.job.config.rounds)
        if self.began is not None and self.round > self.began[1]:
            self.cost = (now - self.began[0]) / (self.round - self.began[1])


class Board(Follower):
    """Watches the folders of all runs: a bar in a terminal, elsewhere one line per finished run and
    one per minute."""

    def __init__(
        self,
        jobs: Sequence[Job],
        running: Sequence[Job],
        failed: Mapping[Path, str],
        at_once: int,
        console: Console,
        estimates: Mapping[Path, float] | None = None,
    ) -> None:
        self.running, self.failed, self.at_once = running, failed, at_once
        self.estimates = dict(estimates or {})  # seconds of each run, before any was begun
        self.corrected = False  # whether it was said how far these are off
        self.said = time.monotonic()  # when there was last a line
        self.tracks = [Track(job) for job in jobs]
        columns = (BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn())
        super().__init__(console, "", sum(job.config.rounds for job in jobs), columns)

    def __enter__(self) -> Self:
        for track in self.tracks:
            track.look(running=False)
        if before := sum(track.finished for track in self.tracks):
            say(self.console, f"{before} of {len(self.tracks)} runs were finished before")
        return super().__enter__()

    def left(self) -> float | None:
        """Estimate the seconds that are left; None before the first round is over.

        A round of a run that has not begun is expected to take as long as with another seed.
        """
        costs = [(track.job.row, track.cost) for track in self.tracks if track.cost is not None]
        if not costs and not self.estimates:
            return None
        work = 0.0
        for track in self.tracks:
            if not track.finished and track.job.folder not in self.failed:
                expected = [cost for row, cost in costs if row == track.job.row]
                if not expected and (estimated := self.estimated(track)) is not None:
                    expected = [estimated * self.factor()]
                expected = expected or [cost for _, cost in costs] or [0.0]
                rounds = track.job.config.rounds - track.round
                work += rounds * sum(expected) / len(expected)
        return work / self.at_once

    def estimated(self, track: Track) -> float | None:
        """Return the seconds per round that were estimated for a run; None if they were not."""
        seconds = self.estimates.get(track.job.folder)
        return None if seconds is None else seconds / max(1, track.job.rounds)

    def factor(self) -> float:
        """Return how many times as long as estimated the rounds take that are done; 1 at first."""
        pairs = [(track.cost, self.estimated(track)) for track in self.tracks]
        known = [(cost, expected) for cost, expected in pairs if cost and expected]
        return sum(cost for cost, _ in known) / sum(one for _, one in known) if known else 1.0

    def correct(self) -> None:
        """Say, once a run is finished, by how much the estimates are wrong."""
        factor = self.factor()
        if self.estimates and not self.corrected:
            self.corrected = True
            if not 1 / FAR < factor < FAR:
                text = f"the first rounds take {factor:.1f} times as long as estimated for an idle"
                say(self.console, f"{text} machine; {say_left(self.left())}")

    def look(self) -> None:
        """Show how far the runs are, and which are under way."""
        running = list(self.running)
        for track in self.tracks:
            before = track.finished
            track.look(track.job in running)
            if track.finished and not before:
                self.correct()
                self.tell(f"{self._count()}: {track.job}; {say_left(self.left())}")
        now = [
            f"{track.job.row.methods[:NAME]} {track.round}/{track.job.config.rounds}"
            for track in self.tracks
            if track.job in running
        ]
        more = [f"{len(now) - SHOWN} more"] if len(now) > SHOWN else []
        text = " · ".join([self._count(), say_left(self.left()), *now[:SHOWN], *more])
        if now and time.monotonic() - self.said >= EVERY:
            self.tell(text)
        done = sum(track.round for track in self.tracks)
        self.progress.update(self.task, completed=done, description=text)

    def tell(self, text: str) -> None:
        """Print a line where there is no bar."""
        self.said = time.monotonic()
        if not is_interactive(self.console):
            say(self.console, text)

    def _count(self) -> str:
        return f"{sum(track.finished for track in self.tracks)}/{len(self.tracks)} runs"


def say_left(seconds: float | None) -> str:
    """Say how long it will take."""
    return "time left unknown" if seconds is None else f"{say_time(seconds)} left"
