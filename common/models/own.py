"""Somebody's own network: makes it, and cuts it into features and classifier."""

import copy

import torch
from torch import Tensor, nn

from fedmirage.common.confinement import confined
from fedmirage.common.errors import ConfigurationError, collect, refuse, say_kind
from fedmirage.common.method import CLASSIFIER, FEATURES, NETWORK
from fedmirage.common.models.base import Model, Shape, chain
from fedmirage.common.models.examination import attempt, find_oddities, make_images
from fedmirage.common.models.params import OwnNetwork
from fedmirage.common.own_code import find
from fedmirage.common.seeds import seed_torch
from fedmirage.common.settings.language import nearest, write


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
    refuse([f"{subject}: {problem}" for problem in find_oddities(model)])
    return widen(model, extra, subject) if extra else model


def make_network(params: OwnNetwork, subject: str) -> nn.Module:
    """Import the class or function and call it with the keys of the line."""
    maker = find(params.name, "model")
    if isinstance(maker, type) and not issubclass(maker, nn.Module):
        raise ConfigurationError(f"{subject}: {maker.__name__} is a class, but no torch.nn.Module")
    if not callable(maker):
        raise ConfigurationError(
            f"{subject} names {say_kind(maker)}; name a class, or a function that returns a"
            " torch.nn.Module"
        )
    with confined(params.name):
        made = attempt(lambda: maker(**(params.model_extra or {})), f"{subject} cannot be made")
    if not isinstance(made, nn.Module):
        raise ConfigurationError(
            f"{subject} returns {say_kind(made)}; it must return a torch.nn.Module"
        )
    return made


def cut(network: nn.Module, head: str, shape: Shape, classes: int, subject: str) -> Model:
    """Cut a network where its last layer begins, and make sure that the halves are the whole."""
    images = make_images(shape)
    network.eval()
    problems: list[str] = []
    with collect(problems):
        logits = compute_logits(network, images, classes, subject)
    with collect(problems):
        name = find_head(network, head, subject)
    refuse(problems)
    model = as_it_is(network, images) if name == CLASSIFIER else None
    model = model or cut_at(network, name, images, logits, subject)
    with torch.no_grad():
        model.feature_dim = model.features(images).shape[1]
    return model.train()


@torch.no_grad()
def compute_logits(network: nn.Module, images: Tensor, classes: int, subject: str) -> Tensor:
    """Let a network answer; refuse an answer that is not one number per class."""
    size = tuple(images.shape)
    logits = attempt(lambda: network(images), f"{subject} fails on images of shape {size}")
    if not isinstance(logits, Tensor):
        raise ConfigurationError(
            f"{subject} returns {say_kind(logits)}; return the logits alone, a tensor of"
            " shape (batch, classes)"
        )
    if logits.shape != (len(images), classes):
        raise ConfigurationError(
            f"{subject} gives outputs of shape {tuple(logits.shape)} for {len(images)} images, but"
            f" the data have {classes} classes; let its last layer have {classes} outputs"
        )
    if not torch.isfinite(logits).all():
        raise ConfigurationError(
            f"{subject} gives outputs that are not finite for images of numbers around 0; check its"
            " initial weights and divisions"
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


def as_it_is(network: nn.Module, images: Tensor) -> Model | None:
    """Take `features` and `classifier` of a network that is nothing else; None for another.

    Its own `forward` might do more, if only in training, such as dropout or detaching in between.
    """
    if [name for name, _ in network.named_children()] != [FEATURES, CLASSIFIER]:
        return None
    if any(name.partition(".")[0] not in NETWORK for name in network.state_dict()):
        return None
    try:
        for training in (False, True):
            whole, parts = (copy.deepcopy(network).train(training) for _ in range(2))
            with torch.enable_grad(), seed_torch(0):
                expected = whole(images)
            with torch.enable_grad(), seed_torch(0):
                features = parts.get_submodule(FEATURES)(images)
                logits = parts.get_submodule(CLASSIFIER)(features)
            if features.ndim != 2 or not torch.equal(logits, expected):
                return None
            if training and list_untrained(whole, expected) != list_untrained(parts, logits):
                return None
    except Exception:  # its own `forward` does something else
        return None
    return Model(network.get_submodule(FEATURES), network.get_submodule(CLASSIFIER), 0)


def list_untrained(network: nn.Module, logits: Tensor) -> list[str]:
    """List the weights that no gradient of the logits reaches."""
    logits.sum().backward()  # type: ignore[no-untyped-call]
    return [name for name, weight in network.named_parameters() if weight.grad is None]


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
