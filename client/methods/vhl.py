"""VHL on the client: train on the virtual set beside the real one, and align their features.

Declared in common/methods/vhl.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fedmirage.client.handout import receive
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.data.batches import ENDLESS, Resident, batches, normalise
from fedmirage.common.learning.augment import AUGMENTATIONS, augment, mean_bytes
from fedmirage.common.learning.losses import label_distance, supervised_contrast
from fedmirage.common.methods.vhl import REMEMBERED, VIRTUAL, Vhl
from fedmirage.common.methods.vhl.sets import normalisation, virtual_images, virtual_means
from fedmirage.common.models.base import LAST
from fedmirage.common.wire.payload import Arrays

COMPARED = 512  # at most this many real and this many virtual samples enter --diagnostics


class VhlClient(Objective[Vhl]):
    """Holds the virtual set for the length of a round.

    Without a set (all weights are 0, or variant="vftl"), the round is FedAvg's.
    """

    data: Resident | None = None  # x~ as bytes, y~
    means: Tensor | None = None  # (classes, width): used by "vfa" instead of images
    images: Tensor  # x~ of this step, as the network sees them
    labels: Tensor  # y~ of this step
    anchors: Tensor  # this step's virtual features for "vfa"
    order: Iterator[Tensor]  # positions in `data`, batch after batch
    varied: torch.Generator  # draws the augmentation
    drawn: torch.Generator  # draws the features of "vfa"
    epoch: int  # steps per pass over the client's own data
    classified = 0  # virtual samples, over all evaluations
    right: Tensor | float = 0.0  # how many of them were classified correctly
    skipped = 0  # steps that were left out because their loss was not finite

    def begin(self, local: LocalRound) -> None:
        """Find the set in the message or in memory, or make it from its seed."""
        if not self.params.sends:
            return
        arrays = receive(
            local.received[VIRTUAL],
            local.memory,
            REMEMBERED,
            "the virtual set",
            lambda seed: make_set(self.params, local, int(seed[0])),
        )
        self.epoch = -(-len(local.data) // local.config.batch_size)
        self.stages = () if self.params.feature == LAST else (self.params.feature,)
        self.varied, self.drawn = local.generator("vhl.augment"), local.generator("vhl.features")
        if self.params.variant == "vfa":
            self.means = torch.tensor(arrays[0], device=local.device)
            return
        images, labels = (torch.tensor(array, device=local.device) for array in arrays)
        self.data = Resident(
            images.contiguous(memory_format=local.run.memory_format), labels.to(torch.int64)
        )
        local.data.accompanied = True
        self.order = self.batches(local)

    def batches(self, local: LocalRound) -> Iterator[Tensor]:
        """Yield B_v positions at a time, shuffled anew in every pass; short batches are dropped."""
        assert self.data is not None
        size = min(self.params.batch or local.config.batch_size, len(self.data))
        for index in batches(len(self.data), local.generator("vhl.batches"), size, steps=ENDLESS):
            if len(index) == size:
                yield index

    def before_step(self, step: Step) -> None:
        """Draw the virtual batch of this step, or the virtual features of "vfa"."""
        if self.means is not None:
            self.draw_features(step)
        if self.data is not None:
            images, self.labels = self.data.take(next(self.order))
            self.images = self.prepare(images, step.local)

    def extra_images(self, step: Step) -> Tensor | None:
        """Send the virtual batch through the network together with the real one."""
        return None if self.data is None else self.images

    def prepare(self, images: Tensor, local: LocalRound, augmented: bool = True) -> Tensor:
        """Turn bytes into what the network sees."""
        mean, std = normalisation(self.params, local.data.mean, local.data.std)
        if augmented:
            images = augment(
                images, AUGMENTATIONS[self.params.augment], self.varied, mean_bytes(mean)
            )
        return normalise(images, mean, std, local.run.memory_format)

    def draw_features(self, step: Step) -> None:
        """Draw floor(B / C) + 1 virtual features per class, around the mean of the class."""
        assert self.means is not None
        repeats = len(step.labels) // step.local.classes + 1
        self.labels = torch.arange(step.local.classes, device=step.local.device).repeat(repeats)
        means = self.means.index_select(0, self.labels)  # (rows, width)
        noise = torch.randn(means.shape, generator=self.drawn).to(means.device)
        self.anchors = means + self.params.spread * noise

    def terms(self, step: Step) -> dict[str, Tensor]:
        """Compute the three terms beside the task's own.

        Labels are shifted in the cross-entropy only, and both contrasts end after `align_epochs`.
        """
        if self.data is None and self.means is None:
            return {}
        params, found = self.params, {}
        real, virtual = self.features(step)
        if self.data is not None:
            logits = step.extra_logits[params.name]
            wanted = params.output_of(self.labels, step.local.classes)
            self.right = self.right + (logits.detach().argmax(1) == wanted).sum()
            self.classified += len(wanted)
            if params.virtual_weight:
                found["virtual"] = params.virtual_weight * step.local.task.loss(logits, wanted)
        if step.number // self.epoch >= params.align_epochs:
            return found
        if params.alignment_weight:
            rows = torch.cat((real, virtual.detach()))  # (real + virtual, width)
            shift = 0 if params.paired else step.local.classes  # no real label is negative
            labels = torch.cat((step.labels, self.labels - shift))
            apart = supervised_contrast(rows, labels, params.temperature)
            found["alignment"] = params.alignment_weight * apart
        if params.contrast_weight:
            apart = supervised_contrast(virtual, self.labels, params.temperature)
            found["virtual_contrast"] = params.contrast_weight * apart
        return found

    def features(self, step: Step) -> tuple[Tensor, Tensor]:
        """Return z and z~ of the layer that is aligned, flattened."""
        name, layer = self.params.name, self.params.feature
        real = step.features if layer == LAST else step.maps[layer].flatten(1)
        if self.means is not None:
            return real, self.anchors
        virtual = (
            step.extra_features[name] if layer == LAST else step.extra_maps[layer][name].flatten(1)
        )
        return real, virtual

    def gradients(self, step: Step, compute: Callable[[], None]) -> None:
        """Leave out a step whose loss is not finite, and limit the norm of the gradients."""
        compute()
        if not self.params.sends:
            return
        if not torch.isfinite(step.loss):
            self.skipped += 1
            for parameter in step.local.trainable():
                parameter.grad = None
        elif limit := self.params.max_gradient_norm:
            torch.nn.utils.clip_grad_norm_(step.local.trainable(), limit)

    def end(self, local: LocalRound) -> dict[str, Arrays]:
        """Report metrics for results.jsonl; nothing is sent beside the model."""
        if self.params.sends:
            local.report["vhl.skipped_steps"] = self.skipped
        if self.data is not None:
            if self.classified:
                local.report["vhl.virtual_train_accuracy"] = float(self.right) / self.classified
            if local.config.diagnostics:
                local.report["vhl.feature_distance"] = self.feature_distance(local)
        return {}

    @torch.no_grad()
    def feature_distance(self, local: LocalRound) -> float:
        """Measure how far real and virtual features with the same label lie apart.

        The features are those of the model that this client has just trained.
        """
        assert self.data is not None
        data, parts = local.data, []
        for resident in (data.resident, self.data):
            order = torch.randperm(len(resident), generator=local.generator("vhl.compared"))
            images, labels = resident.take(order[:COMPARED])
            images = (
                self.prepare(images, local, augmented=False)
                if resident is self.data
                else data.prepare(images, "none", self.varied, local.run.memory_format)
            )
            parts += [local.model.feature_maps(images)[self.params.feature], labels]
        return float(label_distance(*parts))


def make_set(params: Vhl, local: LocalRound, seed: int) -> Arrays:
    """Make the set from its seed, exactly as the server does."""
    shape = tuple(local.data.resident.images.shape[1:])
    if params.variant != "vfa":
        return virtual_images(params, local.config, shape, local.classes, seed)
    return virtual_means(local.model, params.feature, shape, local.classes, seed)
