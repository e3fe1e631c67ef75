"""FedCG on the client: learn from the global generator, then train the own one adversarially.

Declared in common/methods/fedcg.py. The second phase is in adversary.py beside this file.
"""

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from fedmirage.client.methods._pairs import generated_loss, say_how_it_starts
from fedmirage.client.methods.fedcg.adversary import train_adversaries
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.learning.losses import feature_distance
from fedmirage.common.methods._labels import COUNTS
from fedmirage.common.methods.fedcg import GENERATOR, FedCg
from fedmirage.common.models.generators import draw_noise
from fedmirage.common.wire.payload import Sections


class FedCgClient(Objective[FedCg]):
    """Holds the global generator for the length of a round."""

    weight: float  # gamma_r
    teacher: nn.Module  # G, frozen
    target: Tensor  # G(z, y) with the labels of the batch: (batch, feature_dim)

    def begin(self, local: LocalRound) -> None:
        """Take a frozen copy of G, from which the client's own generator starts."""
        params = self.params
        self.weight = params.feature_weight * params.growth(local.number, local.config.rounds)
        self.teacher = deepcopy(local.model.get_submodule(GENERATOR)).eval().requires_grad_(False)
        self.random = local.generator("fedcg.noise")
        say_how_it_starts(local, params.name, "the extractor and the discriminator")

    def before_step(self, step: Step) -> None:
        """Generate features of the batch's labels."""
        if self.weight:
            params, labels = self.params, step.labels
            noise = draw_noise(params.noise, len(labels), params.noise_dim, self.random)
            with torch.no_grad():
                self.target = self.teacher(noise.to(labels.device), labels)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """gamma_r |E_i(x) - G(z, y)|^2, mean over batch and dimensions."""
        if not self.weight:
            return {}
        apart = feature_distance(step.features, self.target)
        return {"generated.features": self.weight * apart}

    def end(self, local: LocalRound) -> Sections:
        """Train generator and discriminator, unless the client could not train at all."""
        if local.steps:
            terms = train_adversaries(local, self.params)
            local.report |= {f"term.adversary.{name}": value for name, value in terms.items()}
        if local.config.diagnostics and local.steps:
            local.report["fedcg.generated_loss"] = generated_loss(local, self.params)
        if not self.params.distils:
            return {}
        return {COUNTS: [local.data.class_counts.astype(np.float64)]}
