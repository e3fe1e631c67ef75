"""What a server sees of one client's training: where it began, and how far it went.

That tells of the labels before any image is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedmirage.audit.attacks import MOST, Inversion
from fedmirage.audit.overheard import SUM, Exchange, Overheard, TappedReply
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.methods._labels import COUNTS
from fedmirage.common.methods.fedcg import FedCg
from fedmirage.common.methods.fedmd_cg import GENERATOR, FedMdCg
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.models.generators import draw_noise
from fedmirage.common.seeds import derive
from fedmirage.common.wire.manifest import floating, from_arrays
from fedmirage.common.wire.metrics import STEPS
from fedmirage.common.wire.payload import SHARED

Named = dict[str, Tensor]
DRAWS = 64  # features that a generator makes of each class
DUMMIES = 64  # images of noise, for what the network answers without having learnt much


@dataclass(frozen=True)
class Sight:
    """One reply, as far as it tells of gradients."""

    weights: Named  # what training began with: as it was sent, or as the attacker supposes
    gradient: Named  # (before - after) / lr of what is sent and trained: a sum over local steps
    reply: TappedReply
    number: int  # the round
    steps: int
    momentum: float
    weight_decay: float
    lr: float


@dataclass(frozen=True)
class Victim:
    """A client, or under secure aggregation all of them, whose images are to be rebuilt."""

    partition: int  # SUM stands for all
    sights: tuple[Sight, ...]  # several only if the client trained on the same images in each
    images: int  # how many there are to be rebuilt
    repeated: bool  # whether every local step looked at all of them

    @property
    def first(self) -> Sight:
        """The earliest reply."""
        return self.sights[0]


def find_victims(params: Inversion, seen: Overheard) -> Iterator[Victim]:
    """Yield whom to attack, until there are enough images.

    A client whose samples fit one batch looks at the same images in every round, so that all its
    replies are attacked together.
    """
    config, left, whole = seen.config, params.images, dict[int, list[Sight]]()
    single: list[Victim] = []
    for exchange in seen.rounds:
        for partition, reply in sorted(exchange.received.items()):
            sight = look(seen, exchange, partition, reply, params.private)
            if not reply.metrics.get(STEPS, 1):
                continue  # it could not train, and moved nothing
            if fits_one_batch(seen, sight):
                whole.setdefault(partition, []).append(sight)
            else:
                each = config.local_steps * config.batch_size * reply.participants
                single.append(Victim(partition, (sight,), min(each, MOST), False))
    together = [
        Victim(partition, tuple(sights), min(sights[0].reply.examples, MOST), True)
        for partition, sights in whole.items()
    ]
    for victim in together + single:
        if left <= 0:
            return
        left -= victim.images
        yield victim


def fits_one_batch(seen: Overheard, sight: Sight) -> bool:
    """Whether every step of a client looked at all its images; a sum never tells."""
    reply = sight.reply
    told = seen.config.dp_params.name != "local"  # which hides how many there are
    return told and reply.participants == 1 and reply.examples <= seen.config.batch_size


def look(
    seen: Overheard, exchange: Exchange, partition: int, reply: TappedReply, private: str = "seed"
) -> Sight:
    """Read a reply: what moved, and from where."""
    manifest = seen.run.shared
    sent = exchange.sent[min(exchange.sent) if partition == SUM else partition]
    before = manifest.name(sent[SHARED])
    after = manifest.name(reply.sections[SHARED])
    config, lr = seen.config, seen.config.learning_rate(exchange.number)
    loaded = {name: torch.from_numpy(before[name]) for name in seen.run.loaded.names}
    trains = seen.run.parts.trains
    moved = [one.name for one in manifest.weights if one.part in trains and one.name in loaded]
    gradient = {name: torch.from_numpy((before[name] - after[name]) / lr) for name in moved}
    return Sight(
        {**suppose(seen, private), **loaded},
        gradient,
        reply,
        exchange.number,
        config.local_steps or round(reply.metrics.get(STEPS, 0)),
        config.momentum,
        config.weight_decay,
        lr,
    )


def suppose(seen: Overheard, private: str) -> Named:
    """Return the whole network as the attacker thinks that a client begins with.

    The run's seed gives it in round 1, and the server knows the seed: that is how much `private`
    "seed" knows of the parts that are not sent. With "guess", they come from another seed.
    """
    model = seen.model()
    if private == "guess":
        other = derive(seen.config.seed, "audit", "guess")
        drawn: Model = build(seen.config.model_params, seen.run.shape, seen.run.classes, 0, other)
        return {name: tensor.detach() for name, tensor in floating(drawn)}
    return {name: tensor.detach() for name, tensor in floating(model)}


@torch.no_grad()
def draw_features(seen: Overheard, reply: TappedReply, drawn: torch.Generator) -> Tensor | None:
    """Return (classes, draws, features) that a client's own generator makes, if it sends one."""
    model, manifest = seen.model().eval(), seen.run.shared
    generator = dict(model.named_children()).get(GENERATOR)
    method = seen.config.method_list[-1]
    if generator is None or not isinstance(method, FedMdCg | FedCg):
        return None
    arrays = manifest.name(reply.sections[SHARED])
    prefix = f"{GENERATOR}."
    own = {name: one for name, one in arrays.items() if name.startswith(prefix)}
    from_arrays(generator, list(own.values()))
    labels = torch.arange(seen.run.classes).repeat_interleave(DRAWS)
    noise = draw_noise(method.noise, len(labels), method.noise_dim, drawn)
    made: Tensor = generator(noise, labels)
    return made.view(seen.run.classes, DRAWS, -1)


def infer_labels(
    model: Model, victim: Victim, shape: tuple[int, ...], drawn: torch.Generator
) -> Tensor | None:
    """Return the labels of the images in ascending order; None if nothing tells of them.

    A client whose label counts are all of its images has told. Otherwise the gradient of the last
    layer's bias tells: g_c = mean_i p_ic - n_c / n for n images, of which n_c are of class c. For
    one image, it is negative for its class and for no other. For several, the answers p to noise
    stand for those to the images, and classes are taken one after the other, the largest rest of
    n (p_c - g_c) first.
    """
    sight = victim.first
    sections = sight.reply.sections
    if victim.repeated and COUNTS in sections and sections[COUNTS][0].sum() == victim.images:
        counts = torch.from_numpy(sections[COUNTS][0]).long()
        return torch.arange(len(counts)).repeat_interleave(counts)
    bias = name_last_bias(model)
    if bias not in sight.gradient:
        return None
    steps = effective_steps(sight.steps, sight.momentum)
    gradient = sight.gradient[bias] / steps - sight.weight_decay * sight.weights[bias]
    left = victim.images * (answer_noise(model, sight, shape, drawn) - gradient)
    found = []
    for _ in range(victim.images):
        found.append(int(left.argmax()))
        left[found[-1]] -= 1
    return torch.tensor(sorted(found))


@torch.no_grad()
def answer_noise(
    model: Model, sight: Sight, shape: tuple[int, ...], drawn: torch.Generator
) -> Tensor:
    """Return the mean probabilities that the network a client began with gives for noise."""
    noise = torch.randn(DUMMIES, *shape, generator=drawn)
    answers: Tensor = functional_call(model, sight.weights, noise).softmax(1).mean(0)
    return answers


def name_last_bias(model: Model) -> str:
    """Return the name of the bias that is added to the logits."""
    layers = [name for name, one in model.named_modules() if isinstance(one, nn.Linear)]
    last = [name for name in layers if name.partition(".")[0] == "classifier"][-1]
    return f"{last}.bias"
