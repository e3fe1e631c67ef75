"""FedLGD on the client: refreshes its virtual images, trains on them and on the global ones.

Declared in common/methods/fedlgd.
"""

import math
import time

import torch
from torch import Tensor

from fedmirage.client.handout import receive
from fedmirage.client.methods.distil.client import (
    draw_virtual_set,
    prepare_virtual_set,
    virtual_set,
)
from fedmirage.client.methods.distil.matching import Matching, RealImages, match_distributions
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalClient, LocalRound, Step
from fedmirage.common.learning.losses import kernel_discrepancy, supervised_contrast
from fedmirage.common.methods.fedlgd import GLOBAL, REMEMBERED_GLOBAL, REMEMBERED_LOCAL, FedLgd
from fedmirage.common.methods.fedlgd.images import decode
from fedmirage.common.models.base import frozen
from fedmirage.common.wire.manifest import arrays_of
from fedmirage.common.wire.payload import Array
from fedmirage.common.wire.preparation import Preparation


class FedLgdClient(Objective[FedLgd]):
    """Holds the global images for the length of a round with the contrast."""

    anchors: Tensor | None = None  # G; None in rounds without the contrast
    anchor_labels: Tensor

    def prepare_client(self, local: LocalClient, until: float) -> Preparation:
        """Learn the first virtual images, turn by turn, as `distil` does."""
        return prepare_virtual_set(self.params, local, until)

    def begin(self, local: LocalRound) -> None:
        """Refresh V if it is time, and replace the client's data by V and G."""
        own, given = self.open_local(local), self.open_global(local)
        images, labels = [own.images], [own.labels]
        if given is not None and self.params.train_on_global:
            images, labels = [*images, given[0]], [*labels, given[1]]
        joined = torch.cat(images).contiguous(memory_format=local.run.memory_format)
        local.data.replace(joined, torch.cat(labels))
        if (
            given is not None
            and self.params.contrast_weight
            and not self.params.distils(local.number)
        ):
            self.anchors, self.anchor_labels = given
            local.data.accompanied = True

    def extra_images(self, step: Step) -> Tensor | None:
        """Send all of G through the network together with the batch."""
        return self.anchors

    def terms(self, step: Step) -> dict[str, Tensor]:
        """Compute the contrast of this batch with G, neither of which is held fixed."""
        if self.anchors is None:
            return {}
        params, anchors = self.params, step.extra_features[self.params.name]
        if params.contrast == "mmd":
            term = kernel_discrepancy(step.features, anchors)
        else:
            rows = torch.cat((step.features, anchors))  # (batch + global images, width)
            labels = torch.cat((step.labels, self.anchor_labels))
            term = supervised_contrast(rows, labels, params.temperature)
        return {"global_contrast": params.contrast_weight * term}

    def open_global(self, local: LocalRound) -> tuple[Tensor, Tensor] | None:
        """Find G in the message or in memory; None in rounds that do not use it."""
        if GLOBAL not in local.received:
            return None
        *coded, labels = receive(
            local.received[GLOBAL], local.memory, REMEMBERED_GLOBAL, "the set of global images"
        )
        return load(decode(coded), labels, local)

    def open_local(self, local: LocalRound) -> Matching:
        """Return V as this client last left it, or as the initial distillation made it.

        What another run left is not used, because its images may differ in number.
        """
        remembered = None if local.memory.inherited else local.memory.get(REMEMBERED_LOCAL)
        if remembered is None:
            own = virtual_set(self.params, local)
        else:
            images, labels = remembered
            own = Matching.begin(*load(images, labels, local), self.params.pixel_lr)
        if self.params.refreshes(local.number):
            own = self.refresh(local, own)
        if local.images is not None and self.params.distils(local.number):
            folder = local.images / f"round-{local.number:05d}"
            draw_virtual_set(local, own, folder / f"client-{local.partition:05d}-fedlgd.png")
        local.memory.put(REMEMBERED_LOCAL, arrays_of([own.images, own.labels]))
        local.report["fedlgd.local_images"] = len(own.labels)
        return own

    def refresh(self, local: LocalRound, own: Matching) -> Matching:
        """Match V's mean features to those of the real images, under the received model."""
        started = time.perf_counter()
        features = frozen(local.model).features
        generator = local.generator("fedlgd.refresh")
        matching = Matching.begin(own.images, own.labels, self.params.pixel_lr)
        match_distributions(
            matching,
            RealImages.of(local),
            self.params,
            lambda step: features,
            lambda step: generator,
            self.params.refresh_steps,
        )
        if math.isfinite(matching.loss):
            local.report["fedlgd.refresh_loss"] = matching.loss
        local.report["seconds.refresh"] = time.perf_counter() - started
        return matching


def load(images: Array, labels: Array, local: LocalRound) -> tuple[Tensor, Tensor]:
    """Load images and labels onto the device, in the memory format of the run."""
    loaded, numbers = (torch.tensor(array, device=local.device) for array in (images, labels))
    return loaded.contiguous(memory_format=local.run.memory_format), numbers.to(torch.int64)
