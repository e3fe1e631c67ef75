"""Somebody's own network: makes it, cuts it into features and classifier, and examines it."""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.method import CLASSIFIER, FEATURES, NETWORK
from fedmirage.common.models.base import Model, Shape, chain
from fedmirage.common.models.params import OwnNetwork
from fedmirage.common.own_code import confined, find
from fedmirage.common.seeds import seed_torch
from fedmirage.common.settings.language import nearest, write

EXAMPLES = 2  # images with which a network is tried
COUNTER = "num_batches_tracked"  # BatchNorm's, which decides nothing here
LONGEST = 200  # characters of somebody else's error


class CutNetwork(Model):
    """A network that was cut at a layer: its features are all that comes before that layer."""

    def __init__(self, features: nn.Module, classifier: nn.Module, head: str, before: str) -> None:
        super().__init__(features, classifier, 0)
        self.head, self.before = f"{head}.", before

    def original_name(self, name: str) -> str:
        """The name of a weight before the cut."""
        if name.startswith(f"{CLASSIFIER}."):
            return self.head + name.removeprefix(f"{CLASSIFIER}.")
        return name.removeprefix(self.before)


def build_own(params: OwnNetwork, shape: Shape, classes: int, extra: int) -> Model:
    """Make and cut a network, with `extra` outputs more than it has by itself."""
    subject = f"model={write(params)!r}"
    network = make_network(params, subject)
    for layer in network.modules():
        if getattr(layer, "inplace", False) is True:
            layer.inplace = False  # type: ignore[assignment]  # methods differentiate twice
    model = cut(network, params.head, shape, classes, subject)
    if problems := [f"{subject}: {problem}" for problem in find_oddities(model)]:
        raise ConfigurationError(problems)
    return widen(model, extra, subject) if extra else model


def make_network(params: OwnNetwork, subject: str) -> nn.Module:
    """Import the class or function and call it with the keys of the line."""
    maker = find(params.name, "model")
    if isinstance(maker, type) and not issubclass(maker, nn.Module):
        raise ConfigurationError(f"{subject}: {maker.__name__} is a class, but no torch.nn.Module")
    if not callable(maker):
        raise ConfigurationError(
            f"{subject} names a {type(maker).__name__}; name a class, or a function that returns a"
            " torch.nn.Module"
        )
    with confined(params.name):
        made = attempt(lambda: maker(**(params.model_extra or {})), f"{subject} cannot be made")
    if not isinstance(made, nn.Module):
        raise ConfigurationError(
            f"{subject} returns a {type(made).__name__}; it must return a torch.nn.Module"
        )
    return made


def attempt(work: Callable[[], Any], what: str) -> Any:
    """Let somebody else's code work; its exception becomes a sentence."""
    try:
        return work()
    except FedmirageError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:LONGEST]
        raise ConfigurationError(f"{what} ({type(error).__name__}: {text})") from error


def cut(network: nn.Module, head: str, shape: Shape, classes: int, subject: str) -> Model:
    """Cut a network where its last layer begins, and make sure that the halves are the whole."""
    images = make_images(shape)
    network.eval()
    found: list[Any] = []
    problems: list[str] = []
    for step in (
        lambda: compute_logits(network, images, classes, subject),
        lambda: find_head(network, head, subject),
    ):
        try:
            found.append(step())
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems)
    logits, name = found
    model = as_it_is(network, images) if name == CLASSIFIER else None
    model = model or cut_at(network, name, images, logits, subject)
    with torch.no_grad():
        model.feature_dim = model.features(images).shape[1]
    return model.train()


def make_images(shape: Shape) -> Tensor:
    """Make some images that differ, without drawing random numbers."""
    channels, height, width = shape
    values = torch.linspace(-1, 1, EXAMPLES * channels * height * width)
    return values.reshape(EXAMPLES, *shape)


@torch.no_grad()
def compute_logits(network: nn.Module, images: Tensor, classes: int, subject: str) -> Tensor:
    """Let a network answer; refuse an answer that is not one number per class."""
    size = tuple(images.shape)
    logits = attempt(lambda: network(images), f"{subject} fails on images of shape {size}")
    if not isinstance(logits, Tensor):
        raise ConfigurationError(
            f"{subject} returns a {type(logits).__name__}; return the logits alone, a tensor of"
            " shape (batch, classes)"
        )
    if logits.shape != (len(images), classes):
        raise ConfigurationError(
            f"{subject} gives outputs of shape {tuple(logits.shape)} for {len(images)} images, but"
            f" the data have {classes} classes; let its last layer have {classes} outputs"
        )
    return logits


def find_head(network: nn.Module, head: str, subject: str) -> str:
    """Find the layer at which to cut, or say which layers there are."""
    layers = [name for name, _ in network.named_modules() if name]
    if (head or CLASSIFIER) in layers:
        return head or CLASSIFIER
    if head:
        raise ConfigurationError(f"{subject} has no layer {head!r}{nearest(head, layers)}")
    linear = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    raise ConfigurationError(
        f"{subject} has no layer called {CLASSIFIER!r}; say where to cut with the name of its last"
        f" layer, for example head={(linear or layers or ['fc'])[-1]!r}"
    )


@torch.no_grad()
def as_it_is(network: nn.Module, images: Tensor) -> Model | None:
    """Take `features` and `classifier` of a network that is nothing else; None for another.

    Its own `forward` might do more, if only in training, such as dropout in between.
    """
    if [name for name, _ in network.named_children()] != [FEATURES, CLASSIFIER]:
        return None
    if any(name.partition(".")[0] not in NETWORK for name in network.state_dict()):
        return None
    try:
        for training in (False, True):
            whole, parts = (copy.deepcopy(network).train(training) for _ in range(2))
            with seed_torch(0):
                expected = whole(images)
            with seed_torch(0):
                features = parts.get_submodule(FEATURES)(images)
                logits = parts.get_submodule(CLASSIFIER)(features)
            if features.ndim != 2 or not torch.equal(logits, expected):
                return None
    except Exception:  # its own `forward` does something else
        return None
    return Model(network.get_submodule(FEATURES), network.get_submodule(CLASSIFIER), 0)


@torch.no_grad()
def cut_at(network: nn.Module, name: str, images: Tensor, logits: Tensor, subject: str) -> Model:
    """Take a layer out of a network; what would go into it are the features, one vector each."""
    parent, _, own = name.rpartition(".")
    layer = network.get_submodule(name)
    setattr(network.get_submodule(parent), own, nn.Identity())
    last = (
        f"{subject}: what {name!r} gives is not what the network returns; write head= with the"
        " layer that computes the outputs, after which nothing happens"
    )
    body, before = network, f"{FEATURES}."
    values = attempt(lambda: body(images), last)
    if isinstance(values, Tensor) and values.ndim > 2:
        body, before = chain(network=network, flatten=nn.Flatten()), f"{FEATURES}.network."
        values = values.flatten(1)
    if not isinstance(values, Tensor) or not torch.equal(
        attempt(lambda: layer(values), last), logits
    ):
        raise ConfigurationError(last)
    return CutNetwork(body, layer, name, before)


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


def widen(model: Model, extra: int, subject: str) -> Model:
    """Put a wider linear layer in the place of the last one; its weights are drawn anew."""
    last, place = model.classifier, model
    name = CLASSIFIER
    if isinstance(last, nn.Sequential) and len(last):
        place, name = last, list(last._modules)[-1]  # type: ignore[assignment]
        last = last[-1]
    if not isinstance(last, nn.Linear):
        raise ConfigurationError(
            f"{subject}: a method adds {extra} outputs to the network, whose classifier ends with"
            f" {type(last).__name__}; let it end with torch.nn.Linear, or leave that method out"
        )
    wider = nn.Linear(last.in_features, last.out_features + extra, last.bias is not None)
    setattr(place, name, wider.to(last.weight.dtype))
    return model


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
