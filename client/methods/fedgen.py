"""FedGen on the client: two terms with features that the server's generator makes.

Declared in common/methods/fedgen.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.learning.losses import divergences
from fedmirage.common.methods._labels import COUNTS, SHARES, Counts
from fedmirage.common.methods.fedgen import GENERATOR, FedGen
from fedmirage.common.models.generators import FeatureGenerator, draw_labels, draw_noise
from fedmirage.common.wire.manifest import from_arrays
from fedmirage.common.wire.payload import Sections


class FedGenClient(Objective[FedGen]):
    """Holds the generator for the length of a round, and the features that it makes for a batch.

    Before the server has trained one, a round is that of the other methods alone.
    """

    generator: FeatureGenerator | None  # G, frozen
    shares: Counts  # p(y)
    random: torch.Generator
    alike: Tensor  # G(z, y) for the labels y of the batch: (batch, feature_dim)
    drawn: Tensor  # y' from p(y): (generated_batch,)
    others: Tensor  # G(z', y'): (generated_batch, feature_dim)

    def begin(self, local: LocalRound) -> None:
        """Build the generator as it came."""
        self.generator, weights = None, local.received[GENERATOR]
        if weights and (self.params.classification_weight or self.params.logit_weight):
            self.generator = self.params.build_generator(local.classes, local.model.feature_dim)
            from_arrays(self.generator, weights)
            self.generator.to(local.device).eval().requires_grad_(False)
            (self.shares,) = local.received[SHARES]
            self.random = local.generator("fedgen")

    def before_step(self, step: Step) -> None:
        """Draw labels and noise, and make the features that belong to them."""
        if self.generator is not None:
            drawn = draw_labels(self.shares, self.params.generates(step.local.config), self.random)
            self.drawn = drawn.to(step.labels.device)
            self.alike, self.others = self.generate(step.labels), self.generate(self.drawn)

    def generate(self, labels: Tensor) -> Tensor:
        """One vector of features per label, from new noise."""
        assert self.generator is not None
        noise = draw_noise(self.params.noise, len(labels), self.params.noise_dim, self.random)
        features: Tensor = self.generator(noise.to(labels.device), labels)
        return features

    def terms(self, step: Step) -> dict[str, Tensor]:
        """alpha_r (b_g / b) CE on features of drawn labels, beta_r KL on those of the batch."""
        params, local = self.params, step.local
        if self.generator is None:
            return {}
        factor, classes, found = params.factor(local.number), local.classes, {}
        if params.classification_weight:
            logits = local.model.classifier(self.others)[:, :classes]  # (generated_batch, classes)
            weight = params.classification_weight * len(self.drawn) / local.config.batch_size
            loss = F.cross_entropy(logits, self.drawn)
            found["generated.classification"] = factor * weight * loss
        if params.logit_weight:
            taught = local.model.classifier(self.alike)[:, :classes].detach()  # (batch, classes)
            apart = divergences(step.logits[:, :classes], taught, params.temperature)  # (batch,)
            found["generated.logits"] = factor * params.logit_weight * apart.mean()
        return found

    def end(self, local: LocalRound) -> Sections:
        """How many samples this client has of each class."""
        return {COUNTS: [local.data.class_counts.astype("float64")]}
