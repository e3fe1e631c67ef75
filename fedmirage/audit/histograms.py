"""What replies tell of the labels that a client has: its class histogram, sent or inferred.

label counts   the section of that name, divided by its sum: exact where a method sends it
classifier     p_c - k g_c, where g is the gradient of the last layer's bias, a mean over the
               local steps, and p what the network that they began with answers to noise. In one
               step, g_c = mean p_c - n_c / n for n samples, of which n_c have class c, so k is
               1. In many, answers follow the labels and g fades, so k is the largest number
               that leaves no share negative
generator      the probability that the client's own classifier gives class c for features that
               its own generator makes for c: both have learnt the classes that it has
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.func import functional_call

from fedmirage.audit.attack import AuditFinding, AuditPicture, AuditTable, Cell
from fedmirage.audit.attacks import Histograms
from fedmirage.audit.inversion.sights import answer_noise, draw_features, look, name_last_bias
from fedmirage.audit.overheard import SUM, Exchange, Overheard, TappedReply
from fedmirage.common.learning.steps import effective_steps
from fedmirage.common.methods._labels import COUNTS
from fedmirage.common.seeds import torch_generator
from fedmirage.common.wire.payload import SHARED

PICTURE = "histograms.png"
SHOWN = 10  # clients of the picture
HEAD = ("source", "round", "distance", "presence")
NOTE = (
    "Distance: half the sum of the absolute differences between told and true shares, a mean over"
    " clients; 0 is exact, 1 is all wrong. Presence: how often a class that a client has ranks"
    " above one that it lacks (ROC area); 1 means that the server can name its classes."
)


@dataclass(frozen=True)
class Told:
    """What one reply tells of a histogram."""

    partition: int
    truth: Tensor  # (classes,) shares
    shares: Mapping[str, Tensor]  # (classes,) each, by source


def carry_out(params: Histograms, seen: Overheard) -> AuditFinding:
    """Compare what each source tells with the truth, in every round."""
    found = {
        exchange.number: [
            read_reply(seen, exchange, partition, reply)
            for partition, reply in sorted(exchange.received.items())
        ]
        for exchange in seen.rounds
    }
    sources = [
        name
        for name in SOURCES
        if any(name in one.shares for told in found.values() for one in told)
    ]
    if not sources:
        return AuditFinding(
            ["Neither label counts nor the last layer are sent, so nothing tells of the labels."]
        )
    rows = [row_of(name, number, told) for name in sources for number, told in found.items()]
    first = min(found)
    distance = {str(row[0]): row[2] for row in rows if row[1] == first and row[2] is not None}
    says = [
        f"In round {first}, the {name} {verb_of(name)} the class histograms"
        f" of the clients to within {100 * float(told):.1f} % of their samples."
        for name, told in distance.items()
    ]
    if any(SUM in exchange.received for exchange in seen.rounds):
        says.append("The server sees sums only: the histogram is that of all clients together.")
    table = AuditTable("Class histograms", HEAD, rows, NOTE)
    numbers = {"distance": {name: float(told) for name, told in distance.items()}}
    return AuditFinding(says, [table], [draw(seen, found[first], sources)], numbers)


def read_reply(seen: Overheard, exchange: Exchange, partition: int, reply: TappedReply) -> Told:
    """Ask every source about one reply."""
    partitions = sorted(exchange.sent) if partition == SUM else [partition]
    counts = sum(torch.from_numpy(seen.truth.view(one).class_counts) for one in partitions)
    truth = torch.as_tensor(counts).double()
    asked = {name: ask(seen, exchange, partition, reply) for name, ask in SOURCES.items()}
    shares = {name: told.double() for name, told in asked.items() if told is not None}
    return Told(partition, truth / truth.sum(), shares)


def read_counts(
    seen: Overheard, exchange: Exchange, partition: int, reply: TappedReply
) -> Tensor | None:
    """Read what a client says itself."""
    if COUNTS not in reply.sections:
        return None
    counts = torch.from_numpy(reply.sections[COUNTS][0])
    return counts / counts.sum()


def read_classifier(
    seen: Overheard, exchange: Exchange, partition: int, reply: TappedReply
) -> Tensor | None:
    """Infer the shares from what became of the last layer's bias."""
    model, sight = seen.model(), look(seen, exchange, partition, reply)
    bias = name_last_bias(model)
    if bias not in sight.gradient or not sight.steps:
        return None
    gradient = sight.gradient[bias] / effective_steps(sight.steps, sight.momentum)
    gradient = (gradient - sight.weight_decay * sight.weights[bias])[: seen.run.classes]
    drawn = torch_generator(seen.config.seed, "audit.histograms", exchange.number, partition)
    answers = answer_noise(model, sight, seen.run.shape, drawn)[: seen.run.classes]
    rising = gradient > 0  # of these classes, the answers were larger than the shares
    factor = max(1.0, float((answers[rising] / gradient[rising]).min())) if rising.any() else 1.0
    shares = (answers - factor * gradient).clamp(min=0)
    return shares / shares.sum()


@torch.no_grad()
def read_generator(
    seen: Overheard, exchange: Exchange, partition: int, reply: TappedReply
) -> Tensor | None:
    """Infer which classes a client has from what its generator and its classifier agree on."""
    drawn = torch_generator(seen.config.seed, "audit.generator", exchange.number, partition)
    features = draw_features(seen, reply, drawn)  # (classes, draws, features)
    if features is None:
        return None
    arrays = seen.run.shared.name(reply.sections[SHARED])
    own = {
        name.removeprefix("classifier."): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith("classifier.")
    }
    classifier = seen.model().eval().classifier
    answers = functional_call(classifier, own, features.flatten(0, 1)).softmax(1)
    agreed: Tensor = answers.view(*features.shape[:2], -1).mean(1).diagonal()
    return agreed / agreed.sum()


COUNTED = "label counts"
SOURCES: dict[str, Callable[[Overheard, Exchange, int, TappedReply], Tensor | None]] = {
    COUNTED: read_counts,
    "classifier": read_classifier,
    "generator": read_generator,
}


def row_of(name: str, number: int, told: Sequence[Told]) -> list[Cell]:
    """Average over the clients of a round."""
    asked = [one for one in told if name in one.shares]
    if not asked:
        return [name, number, None, None]
    distance = mean(float((one.shares[name] - one.truth).abs().sum() / 2) for one in asked)
    areas = [
        float(roc_auc_score(one.truth > 0, one.shares[name])) for one in asked if lacks(one.truth)
    ]
    return [name, number, f"{distance:.3f}", f"{mean(areas):.3f}" if areas else None]


def verb_of(name: str) -> str:
    """Return the verb that goes with a source."""
    return "tell" if name == COUNTED else "tells"


def lacks(truth: Tensor) -> bool:
    """Whether a client lacks some class."""
    return bool((truth == 0).any())


def draw(seen: Overheard, told: Sequence[Told], sources: Sequence[str]) -> AuditPicture:
    """Draw true and told shares beside each other, a row per client."""
    from matplotlib.figure import Figure

    names = ["true", *sources]
    figure = Figure(figsize=(2.4 * len(names) + 0.6, 3), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    shown = told[:SHOWN]
    for place, name in zip(axes, names, strict=True):
        empty = torch.full_like(shown[0].truth, float("nan"))
        rows = [one.truth if name == "true" else one.shares.get(name, empty) for one in shown]
        place.imshow(torch.stack(rows).numpy(), vmin=0, vmax=1, cmap="viridis", aspect="auto")
        place.set(title=name, xlabel="class")
    labels = ["all" if one.partition == SUM else str(one.partition) for one in shown]
    axes[0].set(ylabel="client", yticks=range(len(shown)), yticklabels=labels)
    figure.savefig(seen.picture(PICTURE), dpi=120, metadata={"Software": None})
    return AuditPicture(PICTURE, "class histograms of clients in the first round, true and told")
