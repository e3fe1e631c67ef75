"""FedCG on the client: learn from the global generator, then train the own one adversarially.

Declared in common/methods/fedcg.py. In the second phase of a round, the generator learns to
deceive the discriminator.
"""

from collections.abc import Iterable
from copy import deepcopy

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedmirage.client.methods._pairs import frozen_network, generated_loss, say_how_it_starts
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.client.train import Phase, TermMeans, train_phase
from fedmirage.common.learning.losses import feature_distance
from fedmirage.common.learning.optimizers import Adam, restore_moments, save_moments
from fedmirage.common.methods import Method
from fedmirage.common.methods._labels import COUNTS
from fedmirage.common.methods.fedcg import DISCRIMINATOR, GENERATOR, FedCg
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


# In the client's memory: the moments of the two Adams.
MOMENTS = {GENERATOR: "fedcg.generator", DISCRIMINATOR: "fedcg.discriminator"}


def train_adversaries(local: LocalRound, params: FedCg) -> dict[str, float]:
    """Train G_i and D_i in turn on new batches; return the mean loss of each.

    The extractor is frozen, and the classifier takes no part.
    """
    optimizers = {part: make_optimizer(local, params, part) for part in MOMENTS}
    adversary = Adversary(params, local, optimizers[DISCRIMINATOR])
    batches = local.data.batches(local, "generator.")
    with frozen_network(local):
        adversary.generator.train()
        trained = train_phase(
            local, Phase(batches, optimizers[GENERATOR], adversary.deceive, [adversary])
        )
        adversary.generator.eval()
    for part, optimizer in optimizers.items():
        local.memory.put(MOMENTS[part], save_moments(optimizer))
    return {**trained.terms, **adversary.means.values()} if trained.steps else {}


def make_optimizer(local: LocalRound, params: FedCg, part: str) -> Adam:
    """Make the Adam of a part, with the moments of this client's last round."""
    weights: Iterable[Tensor] = local.model.get_submodule(part).parameters()
    optimizer = Adam(
        weights,
        lr=params.adversary_lr,
        betas=(params.adam_beta, 0.999),
        weight_decay=params.adam_weight_decay,
        fused=True,
    )
    restore_moments(optimizer, local.memory.get(MOMENTS[part]) or [])
    return optimizer


class Adversary(Objective[Method]):
    """Before the generator's step on a batch, the discriminator makes its own."""

    generated: Tensor  # G_i(z, y) with the labels of the batch: (batch, feature_dim)

    def __init__(self, params: FedCg, local: LocalRound, optimizer: Adam) -> None:
        super().__init__(params)
        self.noise, self.noise_dim = params.noise, params.noise_dim
        self.generator = local.model.get_submodule(GENERATOR)
        self.discriminator = local.model.get_submodule(DISCRIMINATOR)
        self.optimizer, self.random = optimizer, local.generator("fedcg.adversary-noise")
        self.means = TermMeans()

    def before_step(self, step: Step) -> None:
        """Generate features, and train the discriminator to tell them from real ones."""
        labels = step.labels
        with torch.no_grad():
            real = step.local.model.features(step.images)  # (batch, feature_dim)
        noise = draw_noise(self.noise, len(labels), self.noise_dim, self.random)
        self.generated = self.generator(noise.to(labels.device), labels)
        loss = discriminator_loss(
            self.discriminator(real, labels), self.discriminator(self.generated.detach(), labels)
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.means.add({DISCRIMINATOR: loss})

    def deceive(self, step: Step) -> dict[str, Tensor]:
        """The generator's loss under the discriminator that has just learned."""
        return {GENERATOR: generator_loss(self.discriminator(self.generated, step.labels))}


def discriminator_loss(real: Tensor, generated: Tensor) -> Tensor:
    """-log D(real) - log(1 - D(generated)) from logits, (batch,) each, mean over the batch."""
    return F.softplus(-real).mean() + F.softplus(generated).mean()


def generator_loss(generated: Tensor) -> Tensor:
    """-log D(generated) from logits, (batch,), mean over the batch."""
    return F.softplus(-generated).mean()
