"""Carries out the runs of a comparison, as many at once as there are cores for, here or elsewhere.

Runs that are finished are left as they are, and those that were interrupted are continued.
"""

import contextlib
import math
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.settings.config import RunConfig
from fedmirage.comparison.plan import Job, resume
from fedmirage.comparison.progress import Board
from fedmirage.comparison.remote import LostHostError, RemoteRuns
from fedmirage.comparison.rows import Row
from fedmirage.launch import attend, close_interrupted, find_cluster
from fedmirage.records.lines import is_finished
from fedmirage.runtimes.guardian import end_all
from fedmirage.runtimes.interrupts import interruptions
from fedmirage.runtimes.processes import Processes, undisturbed
from fedmirage.server.record import checkpoint
from fedmirage.show.words import say

ALONE = ("simulation", "grpc")  # runtimes that use the whole machine for one run
CROWD = 512  # runs that wait for room in a cluster at a time, each in a thread
LOST_HOSTS = 3  # hosts with which a run may be lost


@dataclass(frozen=True)
class Means:
    """How runs are carried out: where, how many at once, and how many clients of each at once."""

    runtime: str
    at_once: int
    actors: int
    verbose: bool = False
    ray_address: str = ""  # of the cluster whose hosts do the runs; empty for this host

    def __str__(self) -> str:
        text = f"{self.at_once} run{'s' * (self.at_once > 1)} at a time"
        return f"{text} on the Ray cluster {self.ray_address}" if self.ray_address else text


def choose_means(
    jobs: Sequence[Job],
    folder: Path,
    runtime: str,
    actors: int,
    verbose: bool,
    ray_address: str | None,
) -> Means:
    """Share the cores of this host, or of the cluster, whose hosts are checked before."""
    address = find_cluster(runtime, ray_address)
    if not address:
        return share_cores(jobs[0].config, runtime, actors, len(jobs), verbose)
    configs = [job.config for job in jobs]
    with Processes(f"FEDMIRAGE_RUN={secrets.token_hex(8)}:{folder}") as processes:
        remote = RemoteRuns(processes, address, configs, actors, verbose, checks=True)
        at_once = min(remote.at_once, len(jobs))
        return Means("inprocess", at_once, remote.actors, verbose, address)


def share_cores(config: RunConfig, runtime: str, actors: int, runs: int, verbose: bool) -> Means:
    """Give every core a run, and runs more cores if there are few; results do not depend on it.

    Ray, gRPC and a GPU serve one run after the other.
    """
    from fedmirage.common import device  # here, because it loads torch

    if runtime in ALONE or device.pick(config.device).type != "cpu":
        return Means(runtime, 1, actors, verbose)
    places = max(1, device.cores() // config.threads)
    at_once = max(1, min(places // max(1, actors), runs))
    return Means("inprocess", at_once, actors or max(1, places // at_once), verbose)


def check_runs(jobs: Sequence[Job], folder: Path) -> None:
    """Refuse, before anything runs, what does not fit the data; a process of its own looks."""
    same = {"seed": 0, "out": "", "warm_start": "", "keep_models": "last"}  # checked once
    configs = {
        job.config.model_copy(update=same): {**job.config.flat(), "warm-start": ""} for job in jobs
    }
    with Processes(f"FEDMIRAGE_RUN={secrets.token_hex(8)}:{folder}") as processes:
        request = {"configs": list(configs.values()), "verbose": False}
        attend(processes, request, Console(quiet=True))


@interruptions.telling()
def carry_out(
    jobs: Sequence[Job],
    means: Means,
    folder: Path,
    console: Console,
    later: Sequence[Job] = (),
    estimates: Mapping[Path, float] | None = None,
) -> dict[Path, str]:
    """Do all runs that are not finished; return why runs failed, by their folders.

    An interrupt ends all of them in a state from which the same command continues. Runs that come
    `later` count in the time that is left, and so do `estimates` of what runs take.
    """
    processes = Processes(f"FEDMIRAGE_RUN={secrets.token_hex(8)}:{folder}")
    work = Work(jobs, means, processes, console)
    try:
        board = Board(
            *([*jobs, *later], work.begun, work.failed, means.at_once, console, estimates)
        )
        with processes, board:
            work.join_cluster()
            work.do_all()
    except KeyboardInterrupt:
        with undisturbed():
            work.close()
            done = sum(is_over(job) for job in jobs)
            with contextlib.suppress(OSError):  # the terminal may be closed
                console.show_cursor()
                text = f"interrupted with {done} of {len(jobs)} runs finished; the same command,"
                say(console, f"{text} with --out {folder}, continues")
        raise
    return work.failed


@dataclass
class Work:
    """The runs that wait, are under way and failed; several threads take from it."""

    jobs: Sequence[Job]
    means: Means
    processes: Processes
    console: Console
    running: list[Job] = field(default_factory=list)  # also if they wait for room in the cluster
    begun: list[Job] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    took: dict[Row, float] = field(default_factory=dict)  # seconds of the last run of each row

    def __post_init__(self) -> None:
        self.waiting: list[Job] = []
        for job in self.jobs:
            try:
                self.waiting += [] if is_finished(job.folder, job.config.rounds) else [job]
            except DataError as error:
                self.failed[job.folder] = str(error)
        self.change = threading.Condition()
        self.threads: list[threading.Thread] = []
        self.stopped = False
        self.remote: RemoteRuns | None = None

    def join_cluster(self) -> None:
        """Join the cluster that does the runs, if one does and something is left to do."""
        means = self.means
        if means.ray_address and self.waiting:
            asked = (means.ray_address, [job.config for job in self.waiting], means.actors)
            self.remote = RemoteRuns(self.processes, *asked, means.verbose, checks=False)

    def do_all(self) -> None:
        """Return when nothing waits any more; a single worker works in the calling thread."""
        count = min(CROWD if self.remote else self.means.at_once, len(self.waiting))
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(count)]
        try:
            if count == 1:
                self.work()
                return
            for thread in self.threads:
                thread.start()
            for thread in self.threads:
                while thread.is_alive():
                    thread.join(0.2)  # a wait without an end would not hear an interrupt
        finally:
            self.stopped = True  # whatever ended this, no further run begins

    def work(self) -> None:
        """Do one run after the other."""
        while (job := self.take()) is not None:
            began = time.monotonic()
            reason = self.attempt(job)
            with self.change:
                self.took[job.row] = time.monotonic() - began
                if not self.stopped:
                    self.running.remove(job)
                    if job in self.begun:
                        self.begun.remove(job)
                    self.failed |= {job.folder: reason} if reason else {}
                self.change.notify_all()

    def take(self) -> Job | None:
        """Wait for a run that can begin; one that takes over rounds waits until these are done."""
        with self.change:
            while self.waiting and not self.stopped:
                busy = {job.folder for job in (*self.waiting, *self.running)}
                able = [job for job in self.waiting if job.parent not in busy]
                if able:
                    job = max(able, key=self.expect)  # the first of equals
                    self.waiting.remove(job)
                    self.running.append(job)
                    return job
                self.change.wait()
        return None

    def expect(self, job: Job) -> float:
        """Return the seconds until a run and what waits for it are done, as with another seed.

        The longest go first, so no core is idle while the other does a long one; a row that has not
        been timed yet counts as long.
        """
        heirs = [other for other in self.waiting if other.parent == job.folder]
        own, *others = (self.took.get(one.row, math.inf) for one in (job, *heirs))
        return own + max(others, default=0.0)

    def attempt(self, job: Job) -> str:
        """Do a run; return why it failed, or nothing."""
        try:
            if self.remote is not None:
                self.do_remotely(self.remote, job)
            else:
                self.begin(job)
                self.do_here(job)
        except (FedmirageError, OSError) as error:
            return str(error)
        return ""

    def begin(self, job: Job) -> None:
        """Show a run as one that is under way."""
        with self.change:
            if job not in self.begun:
                self.begun.append(job)

    def do_here(self, job: Job) -> None:
        """Do a run on this host."""
        quiet = self.console if self.means.verbose else Console(quiet=True)
        config = self.settings(job)
        request = {"config": config.flat(), "folder": str(job.folder)}
        request |= {key: getattr(self.means, key) for key in ("runtime", "actors", "verbose")}
        attend(self.processes, request, quiet)
        if self.means.runtime == "grpc":
            from fedmirage.runtimes.grpc import deploy

            deploy(config, quiet, self.means.verbose)

    def do_remotely(self, remote: RemoteRuns, job: Job) -> None:
        """Do a run on a host of the cluster; if it is lost, go on from there on another one."""
        for lost in range(LOST_HOSTS):
            try:
                remote.do(self.settings(job), job.folder, lambda: self.begin(job))
                return
            except LostHostError as error:
                if lost + 1 == LOST_HOSTS:
                    raise FedmirageError(
                        f"lost {LOST_HOSTS} times on the cluster: {error}"
                    ) from None

    def settings(self, job: Job) -> RunConfig:
        """Decide how a run begins: where it stopped, with the rounds of another, or at round 1."""
        if (job.folder / checkpoint.FILE).exists():
            return resume(job.config)
        if job.parent in self.failed and job.needs_parent:
            raise FedmirageError(f"{job.parent.name}, from which it begins, failed")
        if job.parent in self.failed:
            return job.config.model_copy(update={"warm_start": ""})
        return job.config

    def close(self) -> None:
        """Close the results of all runs whose processes were ended, so that they can continue."""
        with self.change:
            self.change.notify_all()
        for thread in self.threads:
            while thread.is_alive():
                end_all(self.processes.mark)  # one may have been started in the last moment
                thread.join(0.2)
        for job in self.begun:
            with contextlib.suppress(FedmirageError):
                close_interrupted(job.folder)


def is_over(job: Job) -> bool:
    """Whether nothing is left to do of a run; of one whose file is damaged, all is left."""
    try:
        return is_finished(job.folder, job.config.rounds)
    except DataError:
        return False
