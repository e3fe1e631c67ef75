"""Tries every method on this machine's GPU: does it run there, and to the numbers of the CPU?

Each method runs two short rounds on both, with the parameters that it declares for that. Both are
the same up to rounding, so after few steps the weights can differ by little. TF32, which rounds far
more, is off meanwhile.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from fedmirage.client.app import make_app
from fedmirage.client.node.redaction import VARIABLE
from fedmirage.common import device
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import local_models
from fedmirage.common.method import Place
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import Arrays
from fedmirage.runtimes.inprocess import LocalGrid
from fedmirage.runtimes.quick import BASE, line
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.run import run
from fedmirage.show.words import make_table, muted

SETTINGS: dict[str, Any] = {
    **BASE,
    "model": "convnet(width=4, depth=1)",
    "keep_models": "all",
    "retries": 0,
}
# How far all weights together may be from the CPU's, as a share of their length. Rounding alone is
# below 1e-4, but a model that is repaired by what was learned from a path of models amplifies it.
TOLERANCE, REPAIRED = 1e-3, 1e-2
LIMIT = 300.0  # seconds, after which no further method is begun


@dataclass(frozen=True)
class Trial:
    """What came of one method."""

    method: str
    problem: str = ""  # why it did not run; empty if it did
    difference: float = 0.0  # length of the difference of all weights, as a share of the CPU's
    seconds: float = 0.0  # on the GPU
    on_cpu: float = 0.0
    peak: int | None = None  # bytes of the GPU's memory; None where torch does not count them

    @property
    def tolerance(self) -> float:
        """How large the difference may be."""
        return REPAIRED if METHODS[self.method].place is Place.REPAIRS else TOLERANCE

    @property
    def passed(self) -> bool:
        """Whether the method can be used on this GPU."""
        return not self.problem and self.difference <= self.tolerance

    @property
    def verdict(self) -> str:
        """What it says about the method, in a few words."""
        differs = f"differs from the CPU by more than {self.tolerance:g}"
        return self.problem or ("as on the CPU" if self.passed else differs)


def explain_missing() -> str:
    """Why this machine has no GPU that could be tried; empty if it has one."""
    if device.pick("auto").type != "cpu":
        return ""
    built = torch.version.cuda
    why = f"for CUDA {built}, but finds no device" if built else "without CUDA"
    fix = "check the driver with nvidia-smi" if built else "see docs/installing.md, TORCH_INDEX"
    return f"no GPU to try: torch {torch.__version__} was built {why}; {fix}"


def try_methods(names: Iterable[str], limit: float = LIMIT) -> Iterator[Trial]:
    """Try one method after the other, as long as there is time."""
    started = time.monotonic()
    for name in names:
        if time.monotonic() - started > limit:
            yield Trial(name, f"not tried: {limit:.0f} s are over")
            continue
        with tempfile.TemporaryDirectory() as folder, quiet():
            yield try_method(name, Path(folder))


def try_method(name: str, folder: Path) -> Trial:
    """Run a method on the CPU and on the GPU, and compare what it has learned."""
    # What a client raises is told only where its traceback can be kept.
    kept = Path(tempfile.gettempdir()) / f"fedmirage-gpu-{name}.txt"
    kept.unlink(missing_ok=True)
    os.environ[VARIABLE] = str(kept)
    try:
        expected, on_cpu = learn(name, "cpu", folder / "cpu")
        counter = PeakMemory(device.pick("auto"))
        found, seconds = learn(name, "auto", folder / "gpu")
    except Exception as error:  # whatever it is, the other methods are tried
        text = " ".join(str(error).split())
        what = "" if isinstance(error, FedmirageError) else f"{type(error).__name__}: "
        return Trial(name, f"failed: {what}{text}")
    finally:
        del os.environ[VARIABLE]
    if [array.shape for array in found] != [array.shape for array in expected]:
        return Trial(name, "failed: other weights than on the CPU")
    return Trial(name, "", compare(found, expected), seconds, on_cpu, counter.read())


def learn(name: str, where: str, folder: Path) -> tuple[Arrays, float]:
    """Run two rounds; return the shared weights and each client's, and the seconds."""
    config = configure({**SETTINGS, "methods": line(name), "device": where, "out": str(folder)})
    memory = folder / "memory"
    started = time.perf_counter()
    run(LocalGrid(make_app(config, memory), config.clients), config)
    seconds = time.perf_counter() - started
    state = read_checkpoint(folder / "checkpoint.safetensors")
    own = local_models(memory / state.token, state.round)
    return [*state.shared, *(array for _, model in own for array in model)], seconds


def compare(found: Arrays, expected: Arrays) -> float:
    """Return how far apart weights are, as a share of their length; NaN is infinitely far."""
    one, other = (
        np.concatenate([array.ravel().astype(np.float64) for array in arrays])
        for arrays in (found, expected)
    )
    distance = float(np.linalg.norm(one - other) / np.linalg.norm(other))
    return distance if np.isfinite(distance) else float("inf")


class PeakMemory:
    """The largest memory of a GPU that torch has had in use since this was made."""

    def __init__(self, where: torch.device) -> None:
        self.where = where
        if where.type == "cuda":
            torch.cuda.reset_peak_memory_stats(where)

    def read(self) -> int | None:
        """Return it in bytes; None where torch does not count them."""
        return torch.cuda.max_memory_allocated(self.where) if self.where.type == "cuda" else None


@contextmanager
def quiet() -> Iterator[None]:
    """Compute in 32 bits, and let only the table say what happens."""
    tf32 = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with muted("flwr"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kernels without a deterministic counterpart
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = tf32


def try_gpu(console: Console, say: Callable[[str], None]) -> None:
    """Try all methods and print a table; raise if one cannot be used on this GPU."""
    if why := explain_missing():
        say(f"skipped: {why}")
        return
    trials = []
    for trial in try_methods(METHODS):
        say(f"{trial.method}: {trial.verdict}")
        trials.append(trial)
    console.print(tabulate(trials))
    if failed := [trial.method for trial in trials if not trial.passed]:
        raise FedmirageError(
            f"{len(failed)} of {len(trials)} methods cannot be trusted on this GPU:"
            f" {', '.join(failed)}; run them with --device cpu, and report the table above"
        )
    say(f"all {len(trials)} methods compute on {device.pick('auto')} what they do on the CPU")


def tabulate(trials: Iterable[Trial]) -> Table:
    """Make the table of all methods."""
    numbers = ("GPU s", "CPU s", "peak MB", "difference")
    table = make_table(("method", *numbers, "verdict"), numbers, "Two rounds of every method")
    for one in trials:
        peak = "-" if one.peak is None else f"{one.peak / 1e6:.0f}"
        ran = (f"{one.seconds:.1f}", f"{one.on_cpu:.1f}", peak, f"{one.difference:.1e}")
        table.add_row(one.method, *(["-"] * 4 if one.problem else ran), one.verdict)
    return table
