"""How near FedCOG's generation and DynaFed's synthesis come to the products that they consist of.

The limit is the time of the products alone: operations are counted by torch, and the rate is the
best that this machine reaches on products of the same shapes.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import typer
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from experiments.bench.app import app, out

Work = Callable[[], Any]


@app.command()
def limits(
    threads: int = typer.Option(1, help="Threads for all measurements."),
    repeats: int = typer.Option(20, help="Measurements, of which the fastest counts."),
) -> None:
    """Compare a step of FedCOG's generation and of DynaFed's synthesis with their products."""
    torch.set_num_threads(threads)
    table = Table("what", "ms", "million operations", "products alone, ms", "times the limit")
    for name, work, plain, products in (
        ("FedCOG, 256 images, one step", *generation()),
        ("DynaFed, MLP, one iteration", *synthesis("mlp")),
    ):
        operations = count(plain)
        rate = max(count(product) / fastest(product, repeats) for product in products)
        seconds, limit = fastest(work, repeats), operations / rate
        table.add_row(
            name,
            f"{1e3 * seconds:.1f}",
            f"{operations / 1e6:.0f}",
            f"{1e3 * limit:.1f}",
            f"{seconds / limit:.2f}",
        )
    out.print(table)


def count(work: Work) -> float:
    """Count the floating-point operations of products and convolutions, forward and backward."""
    operations = Operations()  # type: ignore[no-untyped-call]
    with operations:
        work()
    return float(operations.total)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up torch's own formulas, also under autograd.grad, where its counter fails."""

    total = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the kernel and count it."""
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=result)
        return result


def fastest(work: Work, repeats: int) -> float:
    """Time the fastest of some calls, in seconds."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def generation() -> tuple[Work, Work, list[Work]]:
    """One step of the generation, the same by plain networks, and its forward convolutions.

    Only the plain networks' operations count: the kernel by rows multiplies by zeros as well.
    """
    from client.methods.fedcog.loss import GenerationLoss
    from client.methods.fedcog.networks import one_by_one
    from common.learning.task import TASKS
    from common.methods.fedcog import FedCog
    from common.models import build
    from common.models.base import frozen

    teacher, partner = (
        frozen(build("simple-cnn", (1, 28, 28), 10, seed=seed)).to(
            memory_format=torch.channels_last  # type: ignore[call-overload]
        )
        for seed in (1, 2)
    )
    images = torch.randn(256, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    loss_of = GenerationLoss(FedCog(), teacher, partner, TASKS["single-label"], 10)
    labels = torch.arange(256) % 10
    maps = torch.randn(64, 6, 12, 12).contiguous(memory_format=torch.channels_last)

    def plain() -> None:
        leaf = images.clone().requires_grad_()
        logits = torch.cat(list(one_by_one([teacher, partner])(leaf)))
        torch.autograd.grad(logits.sum(), leaf)

    return (
        (lambda: loss_of.differentiate(images, labels)),
        plain,
        [
            lambda: F.conv2d(images[:64], teacher.features.stage1.conv.weight),
            lambda: F.conv2d(maps, teacher.features.stage2.conv.weight),
        ],
    )


def synthesis(name: str) -> tuple[Work, Work, list[Work]]:
    """One outer iteration of the synthesis without augmentation, and its largest product."""
    from common.learning.losses import squared_ratio
    from common.methods.dynafed import DynaFed
    from common.models import build
    from server.methods.dynafed.synthesis import Learned, Student, matching_gradients, plans

    params, generator = DynaFed(augment=False), torch.Generator().manual_seed(0)
    model = build(name, (1, 28, 28), 10, seed=1)
    learned = Learned.blank(params, (1, 28, 28), 10, generator)
    for tensor in learned.tensors():
        tensor.requires_grad_()
    start = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    segment = (start, start + 0.01 * torch.randn(start.shape, generator=generator))
    steps = list(plans(params, len(learned.images), generator))
    student = Student(model, 10)
    images, weight = torch.randn(150, 784), torch.randn(784, 128)

    def work() -> None:
        matching_gradients(student, segment, squared_ratio, learned, steps)

    return work, work, [lambda: images @ weight]
