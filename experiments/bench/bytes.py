"""What a client's numbers take on the wire, and how long it takes to write and to read them."""

import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from flwr.common import ndarrays_to_parameters
from rich.table import Table

from experiments.bench.app import benchmark, out
from fedmirage.common.run import Run
from fedmirage.common.secagg.keys import draw_mask, pack, reduce, unpack
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.manifest import Entry, Manifest
from fedmirage.common.wire.payload import SHARED, Array, decode_one
from fedmirage.common.wire.short import SHORT, Wire

TIMES = 3  # the fastest of so many counts
Timed = tuple[int, float, float]  # bytes, seconds to write, seconds to read


@benchmark
def bytes_(numbers: str = "44426,1000000,11000000", clients: int = 10) -> None:
    """Write and read updates: as floats of 32 and 16 bits, and masked for secure aggregation.

    Options:
        numbers: How many numbers: simple-cnn has 44,426, a ResNet-18 11 million.
        clients: Clients per round, of which the bits depend.
    """
    title = f"one client of {clients}; seconds are the fastest of {TIMES}"
    table = Table("numbers", "as", "bytes each", "MB", "write s", "read s", title=title)
    for size in map(int, numbers.split(",")):
        update = np.random.default_rng(0).normal(0, 1e-3, size).astype(np.float32)
        ways = {"float32": measure(partial(write_plainly, update))}
        ways |= {name: measure_short(name, update) for name in SHORT}
        ways |= measure_masked(size, clients)
        for name, (length, write, read) in ways.items():
            cells = (f"{length / size:.2f}", f"{length / 1e6:.2f}", f"{write:.4f}", f"{read:.4f}")
            table.add_row(f"{size:,}", name, *cells)
    out.print(table)


def measure(write: Callable[[], bytes], read: Callable[[bytes], Any] = decode_one) -> Timed:
    """Measure both ways, and keep the fastest."""
    found = []
    for _ in range(TIMES):
        started = time.perf_counter()
        content = write()
        written = time.perf_counter()
        read(content)
        found.append((written - started, time.perf_counter() - written))
    writing, reading = map(min, zip(*found, strict=True))
    return len(content), writing, reading


def write_plainly(update: Array) -> bytes:
    """Write numbers as they are."""
    return ndarrays_to_parameters([update]).tensors[0]


def measure_short(name: str, update: Array) -> Timed:
    """Measure numbers of 16 bits, with their rounding, as a client and the server have them."""
    entry = Entry("features.weight", update.shape, update.dtype)
    facts = SimpleNamespace(
        config=configure({"wire": name}), shared=Manifest((entry,)), sections=()
    )
    wire = Wire(cast(Run, facts))  # which needs no data
    before = [np.zeros_like(update)]

    def write() -> bytes:
        return ndarrays_to_parameters(
            wire.shorten({SHARED: [update]}, before, 1, 0)[SHARED]
        ).tensors[0]

    return measure(write, lambda content: wire.restore({SHARED: [decode_one(content)]}, before))


def measure_masked(size: int, clients: int) -> dict[str, Timed]:
    """Measure masked numbers of eight bytes, and of those that they need; sums must be the same."""
    secagg = SecAggOn()
    width, most = secagg.width(clients), 2 ** (secagg.bits - 1)
    vector = np.random.default_rng(2).integers(-most, most, size, endpoint=True)
    mask = draw_mask(b"bench", size)
    masked = vector + mask
    long = measure(
        lambda: masked.astype("<i8").tobytes(), lambda content: np.frombuffer(content, "<i8")
    )
    short = measure(lambda: pack(masked, width), lambda content: unpack(content, width))
    opened = reduce(unpack(pack(masked, width), width) - mask, width)
    if not np.array_equal(opened, vector):
        raise AssertionError("packed numbers give another sum")
    return {"masked, 8 bytes": long, "masked, packed": short}
