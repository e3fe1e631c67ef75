"""VHL on the client: train on the virtual set beside the real one, and align their features."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from client.handout import receive
from client.objective import Objective
from client.round import LocalRound, Step
from common.data.batches import Resident, batches, normalise
from common.device import memory_format
from common.learning.augment import AUGMENTATIONS, augment, mean_bytes
from common.learning.losses import label_distance, supervised_contrast
from common.methods.vhl import REMEMBERED, VIRTUAL, Vhl
from common.methods.vhl.sets import normalisation, virtual_images, virtual_means
from common.models.base import LAST
from common.wire.payload import Arrays

ENDLESS = 2**62  # steps: passes over the virtual set go on for as long as the round does
COMPARED = 512  # real and virtual samples each, at most, whose features --diagnostics compares


class VhlClient(Objective[Vhl]):
    """Holds the virtual set for the length of a round; without one (all weights 0, or "vftl") the
    round is FedAvg's."""

    data: Resident | None = None  # x~ as bytes, y~
    means: Tensor | None = None  # (classes, width): in the place of images for "vfa"
    images: Tensor  # x~ of this step, as the network sees them
    labels: Tensor  # y~ of this step
    anchors: Tensor  # this step's virtual features for "vfa"
    epoch: int  # steps in a pass over the client's own data
    right: Tensor | float = 0.0  # of the virtual samples seen, how many were recognised
    seen = 0
    skipped = 0  # steps that were not made, since their loss was not finite

    def begin(self, local: LocalRound) -> None:
        """Find the set: as it came, as it is remembered, or as its seed gives it."""
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
            images.contiguous(memory_format=memory_format(local.config)), labels.to(torch.int64)
        )
        local.data.accompanied = True
        self.order = self.batches(local)

    def batches(self, local: LocalRound) -> Iterator[Tensor]:
        """B_v positions at a time, shuffled anew every pass; the short tail of a pass is
        dropped."""
        assert self.data is not None
        size = min(self.params.batch or local.config.batch_size, len(self.data))
        for index in batches(len(self.data), local.generator("vhl.batches"), size, steps=ENDLESS):
            if len(index) == size:
                yield index.to(local.device)

    def before_step(self, step: Step) -> None:
        """Draw the virtual batch of this step, or the virtual features of "vfa"."""
        if self.means is not None:
            self.draw_features(step)
        if self.data is not None:
            images, self.labels = self.data.take(next(self.order))
            self.images = self.prepare(images, step.local)

    def extra_images(self, step: Step) -> Tensor | None:
        """The virtual batch goes through the network together with the real one."""
        return None if self.data is None else self.images

    def prepare(self, images: Tensor, local: LocalRound, augmented: bool = True) -> Tensor:
        """Bytes to what the network sees."""
        mean, std = normalisation(self.params, local.data.mean, local.data.std)
        if augmented:
            images = augment(
                images, AUGMENTATIONS[self.params.augment], self.varied, mean_bytes(mean)
            )
        return normalise(images, mean, std, memory_format(local.config))

    def draw_features(self, step: Step) -> None:
        """Features of every class floor(B / C) + 1 times, round its mean."""
        assert self.means is not None
        repeats = len(step.labels) // step.local.classes + 1
        self.labels = torch.arange(step.local.classes, device=step.local.device).repeat(repeats)
        means = self.means.index_select(0, self.labels)  # (rows, width)
        self.anchors = means + self.params.spread * torch.randn(
            means.shape, generator=self.drawn
        ).to(means.device)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """The three terms beside the task's own; labels are shifted in the cross-entropy alone, and
        both contrasts end with the alignment's epochs."""
        if self.data is None and self.means is None:
            return {}
        params, found = self.params, {}
        real, virtual = self.features(step)
        if self.data is not None:
            logits = step.extra_logits[params.name]
            wanted = params.output_of(self.labels, step.local.classes)
            self.right = self.right + (logits.detach().argmax(1) == wanted).sum()
            self.seen += len(wanted)
            if params.virtual_weight:
                found["virtual"] = params.virtual_weight * step.local.task.loss(logits, wanted)
        if step.number // self.epoch >= params.align_epochs:
            return found
        if params.alignment_weight:
            rows = torch.cat((real, virtual.detach()))  # (real + virtual, width)
            labels = torch.cat((step.labels, self.labels))
            found["alignment"] = params.alignment_weight * supervised_contrast(
                rows, labels, params.temperature
            )
        if params.contrast_weight:
            found["virtual_contrast"] = params.contrast_weight * supervised_contrast(
                virtual, self.labels, params.temperature
            )
        return found

    def features(self, step: Step) -> tuple[Tensor, Tensor]:
        """z and z~, flat, of the layer that is aligned."""
        name, layer = self.params.name, self.params.feature
        real = step.features if layer == LAST else step.maps[layer].flatten(1)
        if self.means is not None:
            return real, self.anchors
        virtual = (
            step.extra_features[name] if layer == LAST else step.extra_maps[layer][name].flatten(1)
        )
        return real, virtual

    def gradients(self, step: Step, compute: Callable[[], None]) -> None:
        """A step whose loss is not finite is not made; a limit on the gradients' norm is kept."""
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
        """Nothing is sent beside the model; figures for results.jsonl."""
        if self.params.sends:
            local.report["vhl.skipped_steps"] = self.skipped
        if self.data is not None:
            if self.seen:
                local.report["vhl.virtual_train_accuracy"] = float(self.right) / self.seen
            if local.config.diagnostics:
                local.report["vhl.feature_distance"] = self.distance(local)
        return {}

    @torch.no_grad()
    def distance(self, local: LocalRound) -> float:
        """Between real and virtual features given the label, of the model that this client has just
        trained."""
        assert self.data is not None
        parts = []
        for resident, prepare in (
            (local.data.resident, self.plain_real),
            (self.data, self.plain_virtual),
        ):
            index = torch.randperm(len(resident), generator=local.generator("vhl.compared"))[
                :COMPARED
            ].to(local.device)
            images, labels = resident.take(index)
            parts += [local.model.feature_maps(prepare(images, local))[self.params.feature], labels]
        return float(label_distance(*parts))

    def plain_real(self, images: Tensor, local: LocalRound) -> Tensor:
        """Real samples as they are in evaluation."""
        return local.data.prepare(images, "none", self.varied, memory_format(local.config))

    def plain_virtual(self, images: Tensor, local: LocalRound) -> Tensor:
        """Virtual samples without augmentation."""
        return self.prepare(images, local, augmented=False)


def make_set(params: Vhl, local: LocalRound, seed: int) -> Arrays:
    """The set from its seed, as the server makes it."""
    channels, height, width = local.data.resident.images.shape[1:]
    if params.variant != "vfa":
        return virtual_images(params, local.config, (channels, height, width), local.classes, seed)
    return virtual_means(
        local.model, params.feature, (channels, height, width), local.classes, seed
    )
