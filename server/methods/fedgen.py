"""FedGen on the server: trains the generator on the classifiers of a round's clients.

Declared in common/methods/fedgen.py.
"""

from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from flwr.common import Parameters, Scalar, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.strategy import Strategy
from torch import Tensor, nn

from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.diversity import absolute_diversity, mean_squares, noise_diversity
from fedmirage.common.learning.losses import divergences
from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.method import CLASSIFIER
from fedmirage.common.methods._labels import COUNTS, SHARES, Counts, client_shares, label_shares
from fedmirage.common.methods.fedgen import GENERATOR, FedGen
from fedmirage.common.models.generators import FeatureGenerator, draw_labels, draw_noise
from fedmirage.common.seeds import derive, seed_torch, torch_generator
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.context import ServerContext, StandAlone
from fedmirage.server.strategy.wrapper import (
    Instructions,
    StrategyWrapper,
    attach,
    detach,
    read_models,
)


@dataclass
class FedGenState:
    """What outlives a round."""

    generator: Arrays = field(default_factory=list)  # G; empty before it was first trained
    moments: Arrays = field(default_factory=list)  # of the Adam that trains it
    shares: Arrays = field(default_factory=list)  # p(y); empty before the first round


class FedGenServer(StrategyWrapper[FedGen]):
    """The model is the inner strategy's business."""

    state: FedGenState
    state_type = FedGenState

    def __init__(
        self,
        inner: Strategy,
        params: FedGen | None = None,
        context: ServerContext | StandAlone | None = None,
    ) -> None:
        if not isinstance(context, ServerContext):
            raise FedmirageError(
                "FedGenServer must know which of the clients' arrays are their classifiers, so it"
                " works only in a run of fedmirage; write --methods fedgen"
            )
        super().__init__(inner, params or FedGen(), context)
        self.run = context.run
        self.model, self.device = context.evaluator.model, context.device

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Send the generator and p(y) to everybody who trains; at first both are empty."""
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        return attach(attach(asked, GENERATOR, self.state.generator), SHARES, self.state.shares)

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Average, and train the generator on the classifiers of the clients that trained."""
        rest, taken = detach(results, COUNTS)
        aggregated, metrics = self.inner.aggregate_fit(server_round, rest, failures)
        counts = [np.maximum(arrays[0], 0) for _, examples, arrays in taken if examples > 0]
        if aggregated is None or not np.any(counts):
            return aggregated, metrics
        heads = [
            self.classifier(arrays) for _, examples, arrays in read_models(rest) if examples > 0
        ]
        student = self.classifier(parameters_to_ndarrays(aggregated))
        own_metrics = self.train(server_round, FedGenTeachers(heads, student, np.stack(counts)))
        return aggregated, {**metrics, **own_metrics}

    def classifier(self, shared: Arrays) -> nn.Module:
        """The classifier among the arrays that a client sent, frozen."""
        head = deepcopy(self.model.classifier)
        from_arrays(head, self.run.shared.only((CLASSIFIER,)).pick(shared, self.run.shared))
        return head.eval().requires_grad_(False)

    def train(self, server_round: int, teachers: "FedGenTeachers") -> dict[str, Scalar]:
        """Train the generator for a round; if that diverges, the last one stays."""
        params, seed = self.params, self.context.config.seed
        shares, generator = self.label_distribution(teachers.counts), self.generator()
        optimizer = Adam(
            generator.parameters(),
            lr=params.generator_lr * params.generator_lr_decay ** (server_round - 1),
            weight_decay=params.adam_weight_decay,
            fused=True,
        )
        restore_moments(optimizer, self.state.moments)
        random, losses = torch_generator(seed, "fedgen.server", server_round), []
        for _ in range(params.generator_steps):
            labels = draw_labels(shares, params.generates(self.context.config), random)
            noise = draw_noise(params.noise, len(labels), params.noise_dim, random)
            loss = generator_loss(
                params, teachers, generator, noise.to(self.device), labels.to(self.device)
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.detach())
        mean, trained = float(torch.stack(losses).mean()), to_arrays(generator)
        if not (np.isfinite(mean) and all(np.isfinite(array).all() for array in trained)):
            self.context.note(
                server_round,
                "fedgen keeps its last generator: training it gave numbers that are not finite;"
                f" lower generator_lr (now {params.generator_lr:g})",
            )
            return {"fedgen.trained": 0.0}
        self.state.generator, self.state.moments = trained, save_moments(optimizer)
        self.state.shares = [shares]
        return {"fedgen.trained": 1.0, "fedgen.generator_loss": mean}

    def label_distribution(self, counts: Counts) -> Counts:
        """p(y) from the counts of a round's clients, (clients, classes)."""
        totals = counts.sum(0)
        return label_shares(totals if self.params.labels == "shares" else totals > 0)

    def generator(self) -> FeatureGenerator:
        """The generator as it was left, at first with weights that follow from the seed."""
        with seed_torch(derive(self.context.config.seed, "fedgen.generator")):
            generator = self.params.build_generator(self.run.classes, self.model.feature_dim)
        if self.state.generator:
            from_arrays(generator, self.state.generator)
        return generator.to(self.device).train()


@dataclass(frozen=True)
class FedGenTeachers:
    """What the generator learns from in a round; clients are in partition order."""

    classifiers: list[nn.Module]  # h_i
    student: nn.Module  # their average
    counts: Counts  # (clients, classes)


def generator_loss(
    params: FedGen, teachers: FedGenTeachers, generator: nn.Module, noise: Tensor, labels: Tensor
) -> Tensor:
    """The loss of one batch of generated features."""
    features = generator(noise, labels)  # (batch, feature_dim)
    classes = teachers.counts.shape[1]
    shares = torch.tensor(client_shares(teachers.counts), dtype=noise.dtype, device=noise.device)
    logits = torch.stack([head(features)[:, :classes] for head in teachers.classifiers])
    loss = agreement_loss(logits, labels, shares)
    if params.student_weight:
        answers = teachers.student(features)[:, :classes]  # (batch, classes)
        mean_logits = (shares[:, labels, None] * logits).sum(0)  # (batch, classes)
        differs = divergences(answers, mean_logits, params.temperature)  # (batch,)
        loss = loss - params.student_weight * differs.mean() / classes
    if params.diversity_weight:
        diversity = (
            absolute_diversity(features, noise)
            if params.diversity == "absolute"
            else noise_diversity(features, noise, labels, classes, mean_squares)
        )
        loss = loss + params.diversity_weight * diversity
    return loss


def agreement_loss(logits: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
    """sum_i tau_{i,y} CE(h_i(G(z, y)), y), mean over the batch.

    `logits` are (clients, batch, classes), and tau, `shares`, is (clients, classes).
    """
    losses = torch.stack([F.cross_entropy(one, labels, reduction="none") for one in logits])
    return (shares[:, labels] * losses).sum(0).mean()  # of (clients, batch)
