"""How cost grows with the number of clients, and with the number of weights."""

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from experiments.bench.app import benchmark, out
from fedmirage.common.cores import cores
from fedmirage.common.errors import FedmirageError
from fedmirage.common.wire.metrics import SECONDS
from fedmirage.records.lines import find_summary, read_rounds, recorded_settings
from fedmirage.server.record.checkpoint import FILE as CHECKPOINT

# Networks of about 44 thousand, 1 million, 11 million and 100 million weights for 28x28 pixels,
# each with the clients of a round.
NETWORKS = "simple-cnn:10;mlp(hidden=700, layers=2):10;resnet18:10;mlp(hidden=4096, layers=7):2"
BASE: dict[str, Any] = {"dataset": "digits", "partition": "draw(per_client=20)", "local-steps": 1}
BASE |= {"batch-size": 20, "lr": 0.01, "threads": 1, "server-threads": 1}
SERVER, ACTOR = "fedmirage.runtimes.child", "ray::ClientAppActor"
EVERY = 0.02  # seconds between two looks at a run's processes


@benchmark
def scale(
    clients: str = "100,1000,10000,100000",
    networks: str = NETWORKS,
    methods: str = "fedavg",
    rounds: int = 3,
    drawn: int = 100,
    reply_memory: int = 0,
    runtime: str = "simulation",
) -> None:
    """Measure memory, seconds outside training, files and resumption, by clients and by weights.

    Memory is the largest that a process ever has in its own pages, without what it shares with
    others (libraries, Ray's store). A client that is never drawn costs what the server of the last
    row has more than that of the first, divided by the clients that it has more.

    Options:
        clients: Numbers of clients; empty for none.
        networks: Networks, and after a colon the clients of a round; ; between.
        methods: The methods line.
        rounds: Rounds of each run, before it is resumed.
        drawn: Clients per round.
        reply_memory: Megabytes, as in the setting.
        runtime: simulation has server and actors apart.
    """
    usual = {**BASE, "methods": methods, "rounds": rounds, "reply-memory": reply_memory}
    counts = [int(count) for count in clients.split(",") if count]
    if counts:
        by_clients(counts, {**usual, "model": "simple-cnn"}, drawn, runtime)
    cases = [case.rpartition(":") for case in networks.split(";") if case]
    if cases:
        by_weights([(line, int(count)) for line, _, count in cases], usual, runtime)


def by_clients(counts: list[int], usual: Mapping[str, Any], drawn: int, runtime: str) -> None:
    """Run with each number of clients, and lay out what that costs."""
    heads = ("clients", "start s", "outside training s", "server MB", "actor MB")
    table = Table(*heads, "checkpoint kB", "folder MB", "resume s", title=f"{drawn} in a round")
    servers = []
    for count in counts:
        settings = {**usual, "clients": count, "participation": min(1.0, drawn / count)}
        found = measure(settings, runtime, resumes=True)
        servers.append(found.memory[SERVER])
        cells = [f"{count:,}", f"{found.start:.1f}", f"{found.outside:.2f}", *found.megabytes]
        cells += [f"{found.checkpoint / 1e3:.0f}", f"{found.folder / 1e6:.2f}"]
        table.add_row(*cells, f"{found.resume:.1f}")
        out.print(" ".join(cells), highlight=False)  # the whole table takes minutes
    out.print(table)
    if len(counts) > 1:
        each = (servers[-1] - servers[0]) / (counts[-1] - counts[0])
        out.print(f"a client that is never drawn costs the server {each:.0f} bytes")


def by_weights(cases: list[tuple[str, int]], usual: Mapping[str, Any], runtime: str) -> None:
    """Run with each network, and lay out what it costs; the first one is the smallest."""
    heads = ("weights", "model MB", "in a round", "s per round", "server MB", "actor MB")
    table = Table(*heads, "server, in models", "replies + 3", title="by weights")
    before = None
    for line, count in cases:
        found = measure({**usual, "clients": count, "model": line}, runtime)
        models = ""
        if before is None:
            before = found
        else:
            more = found.memory[SERVER] - before.memory[SERVER] + (count + 3) * before.model
            models = f"{more / found.model:.1f}"
        cells = [f"{found.weights:,}", f"{found.model / 1e6:.1f}", str(count)]
        cells += [f"{found.round:.2f}", *found.megabytes, models, str(count + 3)]
        table.add_row(*cells)
        out.print(f"{line}: {' '.join(cells)}", highlight=False)
    out.print(table)


@dataclass
class Costs:
    """What a run has cost."""

    start: float  # seconds until its first round
    outside: float  # seconds of a round that are neither training nor evaluation
    round: float  # seconds of a round without evaluation
    memory: dict[str, int]  # bytes, by kind of process
    weights: int
    model: int  # bytes in which they are sent
    checkpoint: int  # bytes
    folder: int  # bytes of all files
    resume: float = 0.0  # seconds until its first round

    @property
    def megabytes(self) -> list[str]:
        """The memory of the server and of the largest actor."""
        return [f"{self.memory.get(kind, 0) / 1e6:.0f}" for kind in (SERVER, ACTOR)]


def measure(settings: Mapping[str, Any], runtime: str, resumes: bool = False) -> Costs:
    """Run, and continue for another round if wanted."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        flags = {**settings, "eval-every": 10**6, "out": folder, "runtime": runtime}
        start, memory = follow(flags, folder)
        lines = read_rounds(folder)
        whole = [line["seconds"]["round"] - line["seconds"]["evaluate"] for line in lines]
        workers = min(cores(), len(lines[-1]["clients"]))
        trained = [sum(one[SECONDS] for one in line["clients"]) / workers for line in lines]
        outside = [all_ - own for all_, own in zip(whole, trained, strict=True)]
        files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        weights = int(recorded_settings(folder)["resolved"]["parameters"])
        model = lines[-1]["bytes_up"] // len(lines[-1]["clients"])
        seconds = start, median(outside[1:]), median(whole[1:])  # the first round warms up
        checkpoint = (folder / CHECKPOINT).stat().st_size
        found = Costs(*seconds, memory, weights, model, checkpoint, sum(files))
        if resumes:
            again = {"resume": folder, "rounds": settings["rounds"] + 1, "runtime": runtime}
            found.resume, _ = follow(again, folder, before=len(lines))
        return found


def follow(flags: Mapping[str, Any], folder: Path, before: int = 0) -> tuple[float, dict[str, int]]:
    """Run to the end; return the seconds before its first round, and the memory of its processes.

    `before` is the number of rounds that the folder has already.
    """
    words = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
    command = [sys.executable, "-P", "-m", "fedmirage.entry", "run", *words]
    began, start = time.monotonic(), None
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        with Sampling(process.pid) as sampling:
            while process.poll() is None:
                if start is None:
                    with contextlib.suppress(OSError, ValueError, FedmirageError):
                        lines = read_rounds(folder)
                        if len(lines) > before:
                            took = lines[before]["seconds"]["round"]
                            start = time.monotonic() - began - took
                time.sleep(0.1)
        if process.returncode or start is None:
            log.seek(0)
            raise FedmirageError(f"{' '.join(command)} failed: {log.read().decode()[-2000:]}")
    assert find_summary(folder)
    return start, sampling.most


@dataclass
class Sampling:
    """Looks at the memory of a process and of all that it has started, in a thread."""

    root: int
    most: dict[str, int] = field(default_factory=dict)  # bytes, by kind of process
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Sampling":
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def work(self) -> None:
        """Look until the block ends; who belongs to the run is found out every second."""
        members: dict[int, str] = {}
        found = 0.0
        while not self.ended.wait(EVERY):
            if time.monotonic() - found > 1:
                members, found = find_members(self.root), time.monotonic()
            for number, kind in members.items():
                with contextlib.suppress(OSError):
                    self.most[kind] = max(self.most.get(kind, 0), read_private(number))


def find_members(root: int) -> dict[int, str]:
    """Find the server and the actors among the processes that one has started, by their ids."""
    parents, names = dict[int, int](), dict[int, str]()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(place.name)] = int(
                place.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            )
            names[int(place.name)] = place.joinpath("cmdline").read_text().replace("\0", " ")
    family, new = {root}, {root}
    while new:
        new = {number for number, parent in parents.items() if parent in new} - family
        family |= new
    kinds = {
        number: [kind for kind in (SERVER, ACTOR) if kind in names.get(number, "")]
        for number in family
    }
    return {number: kind[0] for number, kind in kinds.items() if kind}


def read_private(number: int) -> int:
    """Read how many bytes of memory a process has in pages of its own."""
    for line in Path(f"/proc/{number}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"process {number} has ended")
