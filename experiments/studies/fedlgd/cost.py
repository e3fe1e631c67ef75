"""What FedLGD computes, beside FedAvg on real data: the paper's table 6, and what it leaves out.

Everything is in floating-point operations, as torch counts them for convolutions and matrix
products; a multiplication and an addition are two. The paper does not name its unit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fedmirage.common.data.set import DataSet
from fedmirage.common.learning.losses import supervised_contrast
from fedmirage.common.learning.task import TASKS
from fedmirage.common.methods.fedlgd import FedLgd
from fedmirage.common.models.base import Model, frozen
from fedmirage.common.models.factory import build
from fedmirage.common.settings.config import RunConfig
from fedmirage.server.methods.fedlgd.matching import GradientMatching

IMAGES = 2  # per measurement; costs grow in proportion


@dataclass(frozen=True)
class PerImage:
    """What one image costs in every kind of step."""

    training: float  # forward, and backward to the weights
    contrast: float  # the same for a global image, whose logits give no gradient
    real: float  # the features of a real image, without gradient
    virtual: float  # the features of a virtual image, and back to its pixels
    matching: float  # the gradient by the weights, and its derivative by the pixels


def measure(model: Model, shape: tuple[int, ...], classes: int) -> PerImage:
    """Count the operations of every kind of step with a few images of noise."""
    images, labels = torch.randn(IMAGES, *shape), torch.arange(IMAGES) % classes
    task, still = TASKS["single-label"], frozen(model)
    target = {name: torch.randn_like(weight) for name, weight in model.named_parameters()}

    def train() -> None:
        loss = task.loss(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]

    def contrast() -> None:
        term = supervised_contrast(model.features(images), labels, 0.07)
        term.backward()  # type: ignore[no-untyped-call]

    def virtual() -> None:
        still.features(images.clone().requires_grad_()).sum().backward()

    def match() -> None:
        matching = GradientMatching(model, target, labels, task, classes, "rows")
        # Torch's counter refuses derivatives by what enters the network directly.
        matching(images.clone().requires_grad_() * 1)

    steps = (train, contrast, lambda: still.features(images), virtual, match)
    return PerImage(*(count(step) / IMAGES for step in steps))


def count(step: Callable[[], Tensor | None]) -> float:
    """Count the floating-point operations of a function."""
    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops())


def count_costs(params: FedLgd, config: RunConfig, data: DataSet) -> dict[str, float]:
    """Count what a client and the server compute, on average over the clients."""
    classes, real = len(data.classes), len(data.train) / config.clients
    model = build(config.model_params, data.shape, classes).eval()
    per_image = measure(model, data.shape, classes)
    local, given = params.per_class * classes, params.global_per_class * classes
    trained = local + (given if params.train_on_global else 0)
    steps = config.local_steps or config.local_epochs * -(-trained // config.batch_size)
    training = passes(config, trained) * per_image.training
    seen = min(params.real_per_class * classes, real)
    virtual_part, real_part = local * per_image.virtual, seen * per_image.real
    contrasted = steps * given * per_image.contrast if params.contrast_weight else 0.0
    tau = [number for number in range(1, config.rounds + 1) if params.distils(number)]
    refreshes = sum(map(params.refreshes, tau)) * params.refresh_steps
    others = config.rounds - len(tau)
    table = {
        "fedavg on real data, per round": passes(config, real) * per_image.training,
        "client in a distillation round, training": training,
        "client in a distillation round, per step on its images": virtual_part,
        "client in another round": training + contrasted,
        "server, per step on its images": given * per_image.matching,
        "left out: real images, per step": real_part,
        "left out: initial distillation": params.steps * (virtual_part + real_part),
    }
    client = config.rounds * training + others * contrasted + refreshes * virtual_part
    left_out = refreshes * real_part + table["left out: initial distillation"]
    return {
        **table,
        "fedavg on real data, whole run": config.rounds * table["fedavg on real data, per round"],
        "client as table 6 counts, whole run": client,
        "client with what it leaves out, whole run": client + left_out,
        "server, whole run": len(tau) * params.global_steps * given * per_image.matching,
    }


def passes(config: RunConfig, samples: float) -> float:
    """How many samples a round of local training looks at."""
    if config.local_steps:
        return config.local_steps * min(config.batch_size, samples)
    return config.local_epochs * samples
