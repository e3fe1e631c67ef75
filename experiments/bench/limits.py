"""How near FedCOG's generation and DynaFed's synthesis come to the products that they consist of.

The limit is the time of the products alone: every product and convolution of the work is recorded
with the shapes and the memory layout of its operands, and each kind is then timed by itself.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import torch
import typer
from rich.table import Table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

from experiments.bench.app import app, out

Work = Callable[[], Any]
IN_A_ROW = 5  # calls of one product that are timed together, because many are short


@app.command()
def limits(
    threads: Annotated[int, typer.Option(help="Threads for all measurements.")] = 1,
    repeats: Annotated[int, typer.Option(help="Measurements, of which the fastest counts.")] = 20,
) -> None:
    """Compare a step of FedCOG's generation and of DynaFed's synthesis with their products.

    One thread is timed by its processor time, so that other programs disturb it less; several are
    timed by the clock on the wall.
    """
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    table = Table("what", "ms", "million operations", "products alone, ms", "times the limit")
    for name, work in (
        ("FedCOG, 256 images, one step", generation()),
        ("DynaFed, MLP, one iteration", synthesis("mlp", augment=False)),
        ("DynaFed, MLP, with augmentation", synthesis("mlp", augment=True)),
        ("DynaFed, ConvNet of width 16, one iteration", synthesis(CONVNET, augment=False)),
    ):
        products = record(work)
        seconds = fastest(work, repeats, clock)
        limit = sum(
            times * fastest(partial(repeat, products.examples[kind]), repeats, clock) / IN_A_ROW
            for kind, times in products.calls.items()
        )
        table.add_row(
            name,
            f"{1e3 * seconds:.1f}",
            f"{products.operations / 1e6:.0f}",
            f"{1e3 * limit:.1f}",
            f"{seconds / limit:.2f}",
        )
    out.print(table)


CONVNET = "convnet(width=16)"


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every product: how often each kind occurs, and one example of it.

    Operations are counted by torch's own formulas, also under autograd.grad, where its counter
    fails.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[tuple[Any, ...]] = Counter()
        self.examples: dict[tuple[Any, ...], Work] = {}
        self.operations = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the kernel and record it."""
        named = kwargs or {}
        result = func(*args, **named)
        # The formula of a product also holds for the one in place, whose name ends with "_".
        name = func.overloadpacket.__name__.removesuffix("_")
        formula = flop_registry.get(getattr(torch.ops.aten, name, None))
        if formula is not None:
            self.operations += formula(*args, **named, out_val=result)
            kind = (func, *map(describe, args))
            self.calls[kind] += 1
            if kind not in self.examples:
                operands, options = tree_map_only(Tensor, torch.clone, (args, named))
                self.examples[kind] = partial(func, *operands, **options)
        return result


def describe(argument: Any) -> Any:
    """The shape and the layout of a tensor; any other argument as it is written."""
    if isinstance(argument, Tensor):
        return tuple(argument.shape), argument.stride()
    return str(argument)


def record(work: Work) -> Products:
    """Do the work once, after a call that makes what is only made once."""
    work()
    products = Products()
    with products:
        work()
    return products


@torch.no_grad()
def repeat(product: Work) -> None:
    """Compute a product several times."""
    for _ in range(IN_A_ROW):
        product()


def fastest(work: Work, repeats: int, clock: Callable[[], float]) -> float:
    """Time the fastest of some calls, in seconds."""
    seconds = []
    for _ in range(repeats):
        started = clock()
        work()
        seconds.append(clock() - started)
    return min(seconds)


def generation() -> Work:
    """One step of the generation, without that of its optimiser."""
    from fedmirage.client.methods.fedcog.loss import GenerationLoss
    from fedmirage.common.learning.task import TASKS
    from fedmirage.common.methods.fedcog import FedCog
    from fedmirage.common.models import build
    from fedmirage.common.models.base import frozen

    teacher, partner = (
        frozen(build("simple-cnn", (1, 28, 28), 10, seed=seed)).to(
            memory_format=torch.channels_last  # type: ignore[call-overload]
        )
        for seed in (1, 2)
    )
    images = torch.randn(256, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    loss_of = GenerationLoss(FedCog(), teacher, partner, TASKS["single-label"], 10)
    labels = torch.arange(256) % 10
    return lambda: loss_of.differentiate(images, labels)


def synthesis(name: str, augment: bool) -> Work:
    """One outer iteration of the synthesis, without the step of its optimiser."""
    from fedmirage.common.learning.losses import squared_ratio
    from fedmirage.common.methods.dynafed import DynaFed
    from fedmirage.common.models import build
    from fedmirage.server.methods.dynafed.student import Student
    from fedmirage.server.methods.dynafed.synthesis import Learned, matching_gradients, plans

    params, generator = DynaFed(augment=augment), torch.Generator().manual_seed(0)
    model = build(name, (1, 28, 28), 10, seed=1)
    learned = Learned.blank(params, (1, 28, 28), 10, generator)
    for tensor in learned.tensors():
        tensor.requires_grad_()
    start = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    segment = (start, start + 0.01 * torch.randn(start.shape, generator=generator))
    steps = list(plans(params, len(learned.images), generator))
    student = Student(model, 10)
    return lambda: matching_gradients(student, segment, squared_ratio, learned, steps)
