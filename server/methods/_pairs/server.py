"""The server half of methods whose clients share a generator and a classifier.

FedMD-CG and FedCG average such pairs, and may then train the average to agree with every client's.
The losses are in losses.py.
"""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from flwr.common import Parameters, Scalar, ndarrays_to_parameters, parameters_to_ndarrays
from torch import Tensor

from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.methods._labels import COUNTS, Counts, client_shares, label_shares
from fedmirage.common.methods.fedcg import FedCg
from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.common.models.base import Model
from fedmirage.common.models.generators import draw_labels, draw_noise
from fedmirage.common.seeds import torch_generator
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.methods._pairs import losses
from fedmirage.server.methods._pairs.losses import Compare, GeneratorInputs, Pair, Teachers
from fedmirage.server.strategy.average import Aggregated, Failures, Results, shares_of
from fedmirage.server.strategy.wrapper import StrategyWrapper, detach, read_models

P = TypeVar("P", bound=FedMdCg | FedCg)


@dataclass
class PairState:
    """What outlives a round."""

    shares: Arrays = field(default_factory=list)  # p(y); empty before the first round
    moments: Arrays = field(default_factory=list)  # of the Adam that trains the averaged pair


class PairServer(StrategyWrapper[P]):
    """Lets the inner strategy average the pairs, then trains the average if the method distils.

    It also keeps p(y), the label distribution of the federation, from the counts that clients send.
    """

    state: PairState
    state_type = PairState

    def label_distribution(self, counts: Counts) -> Counts:
        """p(y) from the counts of a round's clients, (clients, classes)."""
        return label_shares(counts.mean(0), self.params.count_smoothing)

    def compare_crossed(self, compare: Compare) -> Compare:
        """How the generator is compared through the clients' classifiers."""
        return compare

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Average the pairs, find p(y), and distil if the pairs of single clients are visible."""
        if not self.params.up:  # without distillation, FedCG's clients send no label counts
            return self.inner.aggregate_fit(server_round, results, failures)
        rest, taken = detach(results, COUNTS)
        aggregated, metrics = self.inner.aggregate_fit(server_round, rest, failures)
        # A client that trained on nothing has nothing to say. A sum of rounded counts may lie just
        # below 0.
        counts = [np.maximum(arrays[0], 0) for _, examples, arrays in taken if examples > 0]
        if aggregated is None or not np.any(counts):
            return aggregated, metrics
        by_client = np.stack(counts)  # (clients, classes)
        self.state.shares = [self.label_distribution(by_client)]
        if not self.params.distils:
            return aggregated, metrics
        name = self.params.name
        distilled = self.refine(server_round, aggregated, rest, by_client)
        if distilled is None:
            self.context.note(
                server_round,
                f"{name} keeps the plain average of the pairs: its distillation was not finite;"
                f" lower server_lr (now {self.params.server_lr:g})",
            )
            return aggregated, {**metrics, f"{name}.distilled": 0.0}
        arrays, loss = distilled
        own_metrics: dict[str, Scalar] = {f"{name}.distilled": 1.0, f"{name}.server_loss": loss}
        return ndarrays_to_parameters(arrays), {**metrics, **own_metrics}

    def refine(
        self, server_round: int, aggregated: Parameters, results: Results, counts: Counts
    ) -> tuple[Arrays, float] | None:
        """Train the averaged pair against those of the clients; None if that diverges."""
        params = self.params
        pair = self.pair(parameters_to_ndarrays(aggregated))
        teachers = self.teachers(results, counts)
        random = torch_generator(self.context.config.seed, params.name, server_round)
        optimizer = Adam(
            pair.parameters(),
            lr=params.server_lr,
            weight_decay=params.adam_weight_decay,
            fused=True,
        )
        restore_moments(optimizer, self.state.moments)
        compare = losses.compare_by_divergence(params.temperature, params.reverse)

        def loss() -> Tensor:
            inputs = self.draw(random, len(teachers.pairs))
            if params.aggregation == "kd":
                return losses.mean_logits_loss(pair, teachers, inputs, compare)
            return losses.crossed_loss(
                pair, teachers, inputs, compare, self.compare_crossed(compare)
            )

        distilled = losses.distil(pair, loss, optimizer, params.server_steps)
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
        shares = client_shares(counts, self.params.count_smoothing)
        return Teachers(
            pairs, weights, torch.tensor(shares, dtype=torch.float32, device=self.context.device)
        )

    def draw(self, generator: torch.Generator, clients: int) -> GeneratorInputs:
        """Draw the inputs of one step: labels from p(y), and noise for every generator."""
        params, device = self.params, self.context.device
        labels = draw_labels(self.state.shares[0], params.generated_batch, generator)

        def noise() -> Tensor:
            return draw_noise(params.noise, len(labels), params.noise_dim, generator).to(device)

        common = noise()
        noises = [common if params.same_noise else noise() for _ in range(clients)]
        return GeneratorInputs(labels.to(device), common, noises)
