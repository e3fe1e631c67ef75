"""Many SuperNodes with a light client against one SuperLink, all on this machine."""

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

from rich.table import Table

from experiments.bench.app import benchmark, out
from fedmirage.common.cores import cores
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.flower import WAITING
from fedmirage.common.run import appearance
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.settings.project import ROOT
from fedmirage.records.lines import Lines, read_rounds
from fedmirage.runtimes.grpc import Federation
from fedmirage.runtimes.guardian import processes_with
from fedmirage.runtimes.sites import Sites

# What a process of a federation is, by words of its command line; the first that fits counts.
KINDS = {
    "nodes": ("bench.light_node",),
    "fedmirage nodes": ("fedmirage.node.", "fedmirage.entry supernode"),
    "superlink": ("flower-superlink", "superexec"),
    "server": ("flwr-serverapp",),
}
TICKS = os.sysconf("SC_CLK_TCK")


@benchmark
def supernodes(
    nodes: str = "10,25,50,100",
    rounds: int = 6,
    model: str = "simple-cnn",
    waiting: str = "adaptive",
    most: float = 14.0,
    real: Annotated[bool, "--real/--no-real"] = False,
) -> None:
    """Measure rounds over gRPC: seconds, memory by process, and who uses the processors.

    Every node is Flower's own SuperNode in a process of its own, but its client sends back the
    weights that came, so what is left is messages. The processes of the nodes are forked from one
    that has Flower loaded; "alone" is the memory that a node has where it shares no pages.

    Options:
        nodes: Numbers of SuperNodes.
        rounds: Rounds; the first one does not count.
        model: The model; its size is what travels.
        waiting: How nodes wait: adaptive or flower.
        most: Gigabytes of memory in use at which larger numbers are left out.
        real: Nodes of fedmirage, which train, and load torch.
    """
    os.environ[WAITING] = waiting
    heads = ("nodes", "start s", "s per round", "node MB", "alone MB", "superlink MB", "server MB")
    title = f"{model}, {waiting} waiting, {cores()} cores"
    table = Table(*heads, "processors busy", "superlink", "server", "nodes", title=title)
    for count in (int(text) for text in nodes.split(",")):
        found = measure(count, rounds, model, real)
        cells = [str(count), *found.row(count)]
        table.add_row(*cells)
        out.print(" ".join(cells), highlight=False)  # the whole table takes minutes
        if found.used > most * 1e9:
            out.print(f"{found.used / 1e9:.1f} GB are in use, so this is the last", highlight=False)
            break
    out.print(table)


class LightFederation(Federation):
    """A federation of nodes that compute nothing."""

    command: Sequence[str] = ()

    def start_nodes(
        self, config: RunConfig, memory: Path, sites: Sites, addresses: list[str]
    ) -> None:
        """Note how they are started: by one process, which forks all of them."""
        facts = json.dumps(appearance(load(config.dataset)))
        self.environment["PYTHONPATH"] = str(ROOT)
        module = [sys.executable, "-m", "experiments.bench.light_node"]
        self.command = [*module, self.fleet, facts, *addresses]

    def submit(self, config: RunConfig) -> str:
        """Submit the run first: its command would starve beside a hundred nodes that start."""
        run = super().submit(config)
        self.spawn("nodes", *self.command)
        return run


@dataclass
class MeasuredFederation:
    """What was measured of one federation."""

    lines: Lines = field(default_factory=list)
    start: float = 0.0  # seconds until the first round
    shared: Counter[str] = field(default_factory=Counter)  # bytes, each page divided by its users
    alone: Counter[str] = field(default_factory=Counter)  # bytes, with all that others use too
    processor: Counter[str] = field(default_factory=Counter)  # seconds in the rounds that count
    elapsed: float = 0.0  # seconds of these rounds
    used: float = 0.0  # bytes of this machine's memory

    def row(self, count: int) -> list[str]:
        """Lay out the cells of a table."""
        kind = "nodes" if self.shared["nodes"] else "fedmirage nodes"
        seconds = [
            line["seconds"]["round"] - line["seconds"]["evaluate"] for line in self.lines[1:]
        ]
        megabytes = [
            value / 1e6
            for value in (
                self.shared[kind] / count,
                self.alone[kind] / count,
                self.shared["superlink"],
                self.shared["server"],
            )
        ]
        used = sum(self.processor.values())
        if not self.elapsed or not used:
            raise FedmirageError("the rounds were too short to be looked at; add --rounds")
        busy = used / self.elapsed / cores()
        shares = [
            f"{100 * self.processor[one] / used:.0f} %" for one in ("superlink", "server", kind)
        ]
        cells = [f"{self.start:.1f}", f"{median(seconds):.2f}"]
        return [*cells, *(f"{value:.0f}" for value in megabytes), f"{100 * busy:.0f} %", *shares]


def measure(count: int, rounds: int, model: str, real: bool) -> MeasuredFederation:
    """Run a federation, and look at its processes while it does."""
    settings = {"dataset": "digits", "partition": "draw(per_client=20)", "clients": count}
    settings |= {"local_steps": 1, "rounds": rounds, "eval_every": rounds, "model": model}
    with tempfile.TemporaryDirectory() as place:
        config = configure({**settings, "out": place, "node_timeout": 600.0})
        logs, home = Path(place) / "logs", Path(place) / "home"
        logs.mkdir()
        home.mkdir()
        kind = Federation if real else LightFederation
        found, began = MeasuredFederation(), time.monotonic()
        with kind(home, logs, verbose=False) as federation:
            federation.start(config, Path(place) / "memory")
            run = federation.submit(config)
            with Watching(found, f"FLWR_HOME={home}", Path(place), began):
                summary = federation.wait(run, Path(place))
        if summary["status"] != "finished":
            raise FedmirageError(f"{count} nodes: {summary.get('reason')}")
        found.lines = read_rounds(Path(place))
        found.start -= found.lines[0]["seconds"]["round"]
        return found


@dataclass
class Watching:
    """Looks at all processes with a mark in their environment, in a thread."""

    found: MeasuredFederation
    mark: str
    folder: Path
    began: float
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> None:
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def work(self) -> None:
        """Look until the block ends; processor seconds count from the first round on."""
        first: tuple[float, Counter[str]] | None = None
        while not self.ended.wait(0.5):
            shared, alone, processor = look(self.mark)
            for most, now in ((self.found.shared, shared), (self.found.alone, alone)):
                most.update({kind: max(0, value - most[kind]) for kind, value in now.items()})
            self.found.used = max(self.found.used, read_used())
            if first is None:
                with contextlib.suppress(FedmirageError, OSError):
                    if read_rounds(self.folder):
                        first = time.monotonic(), processor
                        self.found.start = time.monotonic() - self.began
            elif processor["server"]:  # it is gone when the run is over
                self.found.elapsed = time.monotonic() - first[0]
                self.found.processor = processor - first[1]


def look(mark: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Add up memory, and processor seconds, by kind of process."""
    shared, alone, processor = Counter[str](), Counter[str](), Counter[str]()
    for number in processes_with(mark):
        place = Path(f"/proc/{number}")
        with contextlib.suppress(OSError, IndexError, StopIteration):
            words = place.joinpath("cmdline").read_text().replace("\0", " ")
            kind = next(one for one, signs in KINDS.items() if any(sign in words for sign in signs))
            lines = place.joinpath("smaps_rollup").read_text().splitlines()[1:]
            pages = {line.split()[0]: 1024 * int(line.split()[1]) for line in lines}
            shared[kind] += pages["Pss:"]
            alone[kind] += pages["Rss:"]
            times = place.joinpath("stat").read_text().rpartition(")")[2].split()
            processor[kind] += (int(times[11]) + int(times[12])) / TICKS  # type: ignore[assignment]
    return shared, alone, processor


def read_used() -> float:
    """Read how many bytes of this machine's memory are in use."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines}
    return sizes["MemTotal"] - sizes["MemAvailable"]
