"""Steps of training in float32 and in bfloat16, network by network."""

import time
from pathlib import Path

import torch
from rich.table import Table
from torch import nn

from experiments.bench.app import benchmark, out
from fedmirage.client.train import make_optimizer
from fedmirage.common import device
from fedmirage.common.run import blueprint
from fedmirage.common.settings.config import RunConfig, configure

FLAGS = ("avx512_bf16", "amx_bf16")  # what makes a processor fast at it


@benchmark
def precision(
    models: str = "simple-cnn; convnet(width=32); convnet(width=128); resnet18",
    batch: int = 64,
    steps: int = 10,
    threads: int = 1,
) -> None:
    """Compare steps of training in both precisions, in turns, so that both meet the same load.

    Options:
        models: The networks, separated by semicolons.
        batch: Images per step, of 3x32x32.
        steps: Steps of each, in turns; the median counts.
        threads: Torch threads.
    """
    torch.set_num_threads(threads)
    table = Table(
        "network", "float32 ms", "bfloat16 ms", "gain", title=f"batch {batch}, {find_flags()}"
    )
    for model in (text.strip() for text in models.split(";")):
        loops = [
            Loop(configure({"model": model, "precision": one}), batch)
            for one in ("float32", "bfloat16")
        ]
        times: list[list[float]] = [[loop.step() for loop in loops] for _ in range(steps + 2)][2:]
        whole, half = (sorted(column)[steps // 2] for column in zip(*times, strict=True))
        table.add_row(model, f"{1e3 * whole:.1f}", f"{1e3 * half:.1f}", f"{whole / half:.2f}")
    out.print(table)


def find_flags() -> str:
    """Name the instructions of this processor for bfloat16."""
    try:
        known = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "unknown instructions"
    return ", ".join(flag for flag in FLAGS if flag in known) or "no instructions for bfloat16"


class Loop:
    """A network that is trained on noise, step by step."""

    def __init__(self, config: RunConfig, batch: int) -> None:
        self.config, self.where = config, device.pick(config.device)
        model = blueprint(config, (3, 32, 32), 10)
        self.model = device.place(model, self.where, config).train()
        self.images = torch.randn(batch, 3, 32, 32, device=self.where)
        self.images = self.images.contiguous(memory_format=device.memory_format(config))
        self.labels = torch.arange(batch, device=self.where) % 10
        self.optimizer = make_optimizer(config, list(model.parameters()), 0.01)

    def step(self) -> float:
        """Do a step as the training loop does; return its seconds."""
        started = time.perf_counter()
        with device.arithmetic(self.config, self.where):
            self.optimizer.zero_grad(set_to_none=True)
            logits = device.in_32_bits(self.model(self.images))
            nn.functional.cross_entropy(logits, self.labels).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        if self.where.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started
