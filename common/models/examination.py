"""Examines somebody's own network: can its weights be exchanged, and can it be trained?"""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.method import CLASSIFIER, FEATURES
from fedmirage.common.models.base import Model, Shape

EXAMPLES = 2  # images with which a network is tried
COUNTER = "num_batches_tracked"  # BatchNorm's, which decides nothing here
LONGEST = 200  # characters of somebody else's error


def examine(model: Model, shape: Shape, subject: str) -> list[str]:
    """Train one step on a copy, and say what goes wrong."""
    try:
        trial = attempt(lambda: copy.deepcopy(model), f"{subject} cannot be copied").train()
        images = make_images(shape)
        logits = attempt(lambda: trial(images), f"{subject} fails in training mode")
    except ConfigurationError as error:
        return error.problems
    problems = []
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for name, buffer in trial.named_buffers():
        changes = not torch.equal(buffer, before[name])
        if changes and not buffer.is_floating_point() and not name.endswith(COUNTER):
            problems.append(
                f"{subject}: the buffer {model.original_name(name)!r} holds whole numbers that"
                " change in training; they are never exchanged, so make it floating-point"
            )
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        return [*problems, f"{subject} does not return the logits alone in training mode"]
    F.cross_entropy(logits, torch.arange(len(images)) % logits.shape[1]).backward()  # type: ignore[no-untyped-call]
    return problems + check_gradients(trial, subject)


def check_gradients(trial: Model, subject: str) -> list[str]:
    """Refuse a part that no gradient reaches, and gradients that are not finite."""
    problems = []
    for part in (FEATURES, CLASSIFIER):
        weights = dict(trial.get_submodule(part).named_parameters(part))
        trained = {name: weight for name, weight in weights.items() if weight.requires_grad}
        moved = {name: weight.grad for name, weight in trained.items() if weight.grad is not None}
        if trained and not moved:
            problems.append(f"{subject}: no gradient reaches its {part}; does it detach them?")
        problems += [
            f"{subject}: the gradient of {trial.original_name(name)!r} is not finite"
            for name, gradient in moved.items()
            if not bool(torch.isfinite(gradient).all())
        ]
    return problems


def find_oddities(model: Model) -> list[str]:
    """Say what keeps the weights of a network from being exchanged and averaged."""
    problems = [
        f"{model.original_name(name)!r} is {str(tensor.dtype).removeprefix('torch.')}; weights and"
        " statistics must be float32 or float64"
        for name, tensor in model.state_dict().items()
        if (tensor.is_floating_point() or tensor.is_complex())
        and tensor.dtype not in (torch.float32, torch.float64)
    ]
    once = dict(model.named_parameters())
    for name, weight in model.named_parameters(remove_duplicate=False):
        if name not in once:
            twin = next(other for other, tensor in once.items() if tensor is weight)
            names = f"{model.original_name(twin)!r} and {model.original_name(name)!r}"
            problems.append(f"{names} are one tensor, which methods would count twice; untie them")
    if not any(True for _ in model.classifier.parameters()):
        problems.append("the classifier has no parameters; cut at the last layer that has some")
    return problems


def make_images(shape: Shape) -> Tensor:
    """Make some images that differ, without drawing random numbers."""
    channels, height, width = shape
    values = torch.linspace(-1, 1, EXAMPLES * channels * height * width)
    return values.reshape(EXAMPLES, *shape)


def attempt(work: Callable[[], Any], what: str) -> Any:
    """Let somebody else's code work; its exception becomes a sentence."""
    try:
        return work()
    except FedmirageError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:LONGEST]
        raise ConfigurationError(f"{what} ({type(error).__name__}: {text})") from error
