"""The server half of methods whose clients share a generator and a classifier.

FedMD-CG and FedCG average such pairs, and may then train the average to agree with every client's.
The losses are in pairs.py.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import torch
from flwr.common import Parameters, Scalar, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import Strategy
from torch import Tensor

from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.models.base import Model
from fedmirage.common.models.generators import Noise, draw_labels, draw_noise
from fedmirage.common.seeds import torch_generator
from fedmirage.common.settings.language import Params
from fedmirage.common.wire.labels import COUNTS, Counts, client_shares, label_shares
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Failures, Results, shares_of
from fedmirage.server.strategy.context import ServerContext, StandAlone
from fedmirage.server.strategy.pairs import (
    Compare,
    Inputs,
    Pair,
    Teachers,
    crossed_loss,
    distil,
    mean_logits_loss,
)
from fedmirage.server.strategy.wrapper import StrategyWrapper, detach, read_models

M = TypeVar("M", bound=Params)


@dataclass(frozen=True)
class Distillation:
    """How an averaged pair is trained in a round."""

    kind: Literal["kdc", "kd"]  # crosswise with every pair, or towards the mean of their logits
    steps: int
    lr: float
    weight_decay: float
    compare: Compare
    compare_crossed: Compare  # how the generator is compared through the clients' classifiers
    batch: int
    noise: Noise
    noise_dim: int
    same_noise: bool = True  # all generators get the same noise in a step


@dataclass
class PairState:
    """What outlives a round."""

    shares: Arrays = field(default_factory=list)  # p(y); empty before the first round
    moments: Arrays = field(default_factory=list)  # of the Adam that trains the averaged pair


class PairServer(StrategyWrapper[M]):
    """Lets the inner strategy average the pairs, then trains the average as `distillation` says.

    It also keeps p(y), the label distribution of the federation, from the counts that clients send.
    """

    state: PairState

    def __init__(
        self, inner: Strategy, params: M, context: ServerContext | StandAlone | None = None
    ) -> None:
        super().__init__(inner, params, context)
        self.state = PairState()

    @abstractmethod
    def distillation(self) -> Distillation | None:
        """How averages are trained; None leaves them as they are."""

    def label_distribution(self, counts: Counts) -> Counts:
        """p(y) from the counts of a round's clients, (clients, classes)."""
        return label_shares(counts.mean(0), self.count_smoothing)

    @property
    def count_smoothing(self) -> float:
        """Samples that every client is thought to have of each class in addition."""
        return 0.0

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Average the pairs, find p(y), and distil if the pairs of single clients are visible."""
        rest, taken = detach(results, COUNTS)
        aggregated, metrics = self.inner.aggregate_fit(server_round, rest, failures)
        # A client that trained on nothing has nothing to say. A sum of rounded counts may lie just
        # below 0.
        counts = [np.maximum(arrays[0], 0) for _, examples, arrays in taken if examples > 0]
        if aggregated is None or not np.any(counts):
            return aggregated, metrics
        by_client = np.stack(counts)  # (clients, classes)
        self.state.shares = [self.label_distribution(by_client)]
        if (how := self.distillation()) is None:
            return aggregated, metrics
        name = self.params.name
        distilled = self.refine(server_round, how, aggregated, rest, by_client)
        if distilled is None:
            self.context.note(
                server_round,
                f"{name} keeps the plain average of the pairs: its distillation was not finite;"
                f" lower server_lr (now {how.lr:g})",
            )
            return aggregated, {**metrics, f"{name}.distilled": 0.0}
        arrays, loss = distilled
        figures: dict[str, Scalar] = {f"{name}.distilled": 1.0, f"{name}.server_loss": loss}
        return ndarrays_to_parameters(arrays), {**metrics, **figures}

    def refine(
        self,
        server_round: int,
        how: Distillation,
        aggregated: Parameters,
        results: Results,
        counts: Counts,
    ) -> tuple[Arrays, float] | None:
        """Train the averaged pair against those of the clients; None if that diverges."""
        pair = self.pair(parameters_to_ndarrays(aggregated))
        teachers = self.teachers(results, counts)
        draw = partial(
            self.draw,
            how,
            torch_generator(self.context.config.seed, self.params.name, server_round),
        )
        optimizer = Adam(pair.parameters(), lr=how.lr, weight_decay=how.weight_decay, fused=True)
        restore_moments(optimizer, self.state.moments)

        def loss() -> Tensor:
            inputs = draw(len(teachers.pairs))
            if how.kind == "kd":
                return mean_logits_loss(pair, teachers, inputs, how.compare)
            return crossed_loss(pair, teachers, inputs, how.compare, how.compare_crossed)

        distilled = distil(pair, loss, optimizer, how.steps)
        if distilled is not None:
            self.state.moments = save_moments(optimizer)
        return distilled

    def pair(self, arrays: Arrays) -> Pair:
        """Build a pair with these weights."""
        model = self.context.model
        assert isinstance(model, Model)
        return Pair.of(model, arrays, self.context.classes).to(self.context.device)

    def teachers(self, results: Results, counts: Counts) -> Teachers:
        """The pairs of all clients that trained; counts and models are both in partition order."""
        models = [
            (examples, arrays) for _, examples, arrays in read_models(results) if examples > 0
        ]
        weights = shares_of([examples for examples, _ in models], self.context.weighting)
        assert weights is not None  # there is an average, so somebody trained
        pairs = [self.pair(arrays).eval().requires_grad_(False) for _, arrays in models]
        shares = client_shares(counts, self.count_smoothing)
        return Teachers(
            pairs, weights, torch.tensor(shares, dtype=torch.float32, device=self.context.device)
        )

    def draw(self, how: Distillation, generator: torch.Generator, clients: int) -> Inputs:
        """Draw the inputs of one step: labels from p(y), and noise for every generator."""
        device = self.context.device
        labels = draw_labels(self.state.shares[0], how.batch, generator)

        def noise() -> Tensor:
            return draw_noise(how.noise, len(labels), how.noise_dim, generator).to(device)

        common = noise()
        noises = [common if how.same_noise else noise() for _ in range(clients)]
        return Inputs(labels.to(device), common, noises)
