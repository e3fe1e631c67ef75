"""FedMD-CG on the server: averages the clients' pairs, and distils from every one of them.

Declared in common/methods/fedmd_cg.py.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from flwr.common import Parameters, Scalar, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_manager import ClientManager
from flwr.server.strategy import Strategy
from torch import Tensor

from common.learning.draws import draw_labels, draw_noise
from common.learning.optimizers import Adam, restore_moments, save_moments
from common.methods.fedmd_cg import FedMdCg
from common.models.base import Model
from common.seeds import torch_generator
from common.wire.labels import COUNTS, SHARES, Counts, client_shares, label_shares
from common.wire.payload import Arrays
from server.strategy.average import Failures, Results, shares_of
from server.strategy.context import ServerContext, StandAlone
from server.strategy.pairs import (
    Inputs,
    Pair,
    Teachers,
    compare_by_divergence,
    compare_by_product,
    crossed_loss,
    distil,
    mean_logits_loss,
)
from server.strategy.wrapper import Instructions, StrategyWrapper, attach, detach, read_models


@dataclass
class FedMdCgState:
    """What outlives a round."""

    shares: Arrays = field(default_factory=list)  # p(y); empty before the first round
    moments: Arrays = field(default_factory=list)  # of the Adam that trains the averaged pair


class FedMdCgServer(StrategyWrapper[FedMdCg]):
    """With aggregation="ave" or "ave_star", the pair is the inner strategy's business."""

    state: FedMdCgState

    def __init__(
        self, inner: Strategy, params: FedMdCg, context: ServerContext | StandAlone | None = None
    ) -> None:
        super().__init__(inner, params, context)
        self.state = FedMdCgState()

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """p(y) goes to everybody who trains; before anything is known, all classes are alike."""
        classes = self.context.classes
        shares = self.state.shares or [np.full(classes, 1 / classes)]
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        return attach(asked, SHARES, shares)

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
        self.state.shares = [label_shares(by_client.mean(0), self.params.count_smoothing)]
        if not self.params.distils:
            return aggregated, metrics
        distilled = self.refine(server_round, aggregated, rest, by_client)
        if distilled is None:
            self.context.note(
                server_round,
                "fedmd-cg keeps the plain average of the pairs: its distillation was not finite;"
                f" lower server_lr (now {self.params.server_lr:g})",
            )
            return aggregated, {**metrics, "fedmd-cg.distilled": 0.0}
        arrays, loss = distilled
        figures: dict[str, Scalar] = {"fedmd-cg.distilled": 1.0, "fedmd-cg.server_loss": loss}
        return ndarrays_to_parameters(arrays), {**metrics, **figures}

    def refine(
        self, server_round: int, aggregated: Parameters, results: Results, counts: Counts
    ) -> tuple[Arrays, float] | None:
        """Train the averaged pair against those of the clients; None if that diverges."""
        params = self.params
        pair = self.pair(parameters_to_ndarrays(aggregated))
        teachers = self.teachers(results, counts)
        draw = partial(
            self.draw, torch_generator(self.context.config.seed, "fedmd-cg", server_round)
        )
        optimizer = Adam(
            pair.parameters(),
            lr=params.server_lr,
            weight_decay=params.adam_weight_decay,
            fused=True,
        )
        restore_moments(optimizer, self.state.moments)
        compare = compare_by_divergence(params.temperature, params.reverse)
        crossed = (
            compare_by_product(params.temperature) if params.crossed_loss == "product" else compare
        )

        def loss() -> Tensor:
            inputs = draw(len(teachers.pairs))
            if params.aggregation == "kd":
                return mean_logits_loss(pair, teachers, inputs, compare)
            return crossed_loss(pair, teachers, inputs, compare, crossed)

        distilled = distil(pair, loss, optimizer, params.server_steps)
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

    def draw(self, generator: torch.Generator, clients: int) -> Inputs:
        """Draw the inputs of one step: labels from p(y), and noise for every generator."""
        params, device = self.params, self.context.device
        labels = draw_labels(self.state.shares[0], params.generated_batch, generator)

        def noise() -> Tensor:
            drawn = draw_noise(params.noise, len(labels), params.noise_dim, generator)
            return drawn.to(device)

        common = noise()
        noises = [common if params.same_noise else noise() for _ in range(clients)]
        return Inputs(labels.to(device), common, noises)
