"""What a run changes of a new network: the weights that it begins with, and those that stay."""

from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedmirage.common.errors import ConfigurationError, DataError, refuse
from fedmirage.common.method import CLASSIFIER, NETWORK
from fedmirage.common.models.base import Model
from fedmirage.common.settings.language import nearest
from fedmirage.common.wire.files import read_any_arrays
from fedmirage.common.wire.manifest import floating


def begin_with(model: Model, path: str | Path) -> None:
    """Copy the weights of a safetensors file into a network.

    Weights are found by their names here or in the network as its author wrote it. Everything but
    the classifier must be there. A classifier for other classes is left as the seed gives it, which
    is how a network is fine-tuned.
    """
    key = f"initial-weights={str(path)!r}"
    try:
        named = read_any_arrays(path)
    except DataError as error:
        raise ConfigurationError(f"initial-weights: {error}") from None
    entries = [(name, tensor) for name, tensor in floating(model) if part_of(name) in NETWORK]
    found = {name: named.get(name, named.get(model.original_name(name))) for name, _ in entries}
    problems, left = [], []
    for name, tensor in entries:
        array, wanted = found[name], tuple(tensor.shape)
        if array is not None and array.shape == wanted and np.isfinite(array).all():
            continue
        if part_of(name) == CLASSIFIER and (array is None or array.shape != wanted):
            left.append(name)
        elif array is None:
            some = ", ".join(map(repr, list(named)[:3])) or "nothing"
            problems.append(f"{key} lacks {model.original_name(name)!r}; it holds {some}, ...")
        else:
            what = f"shape {array.shape}" if array.shape != wanted else "values that are not finite"
            problems.append(
                f"{key}: {model.original_name(name)!r} has {what}; the network's has {wanted}"
            )
    refuse(problems[:3])
    with torch.no_grad():
        for name, tensor in entries:
            if not left or part_of(name) != CLASSIFIER:
                tensor.copy_(torch.tensor(found[name]))
    if left:
        text = f"{key} has no {model.original_name(left[0])!r} of this shape, so the classifier"
        model.remarks.append(f"{text} begins as the seed gives it")


def freeze(model: Model, patterns: str) -> Model:
    """Keep the weights whose names match as they are; patterns are separated by commas."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    names = [name for name, _ in floating(model) if part_of(name) in NETWORK]
    problems, fixed = [], set()
    for pattern in wanted:
        matched = {
            name
            for name in names
            if fnmatchcase(name, pattern) or fnmatchcase(model.original_name(name), pattern)
        }
        if not matched:
            problems.append(f"freeze={pattern!r} matches no weight{nearest(pattern, names)}")
        fixed |= matched
    weights = {name for name, _ in model.named_parameters() if part_of(name) in NETWORK}
    if weights and weights <= fixed:
        problems.append(f"freeze={patterns!r} leaves nothing to train; name fewer weights")
    refuse(problems)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in fixed)
    model.fixed = frozenset(fixed)
    model.resting = tuple(
        layer for name, layer in model.named_modules() if rests(layer, name, fixed)
    )
    return model.train(model.training)


def rests(layer: nn.Module, name: str, fixed: set[str]) -> bool:
    """Whether a layer has weights or statistics of its own, and all of them are fixed."""
    own = [*layer.named_parameters(name, recurse=False), *layer.named_buffers(name, recurse=False)]
    held = [name for name, tensor in own if tensor.is_floating_point()]
    return bool(held) and fixed.issuperset(held)


def part_of(name: str) -> str:
    """The part of the model that a weight belongs to."""
    return name.partition(".")[0]
