"""Distil on the client: prepares its virtual images, and trains on nothing else.

Declared in common/methods/distil.
"""

import math

from fedmirage.client.methods.distil.virtual import (
    draw_virtual_set,
    prepare_virtual_set,
    virtual_set,
)
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalClient, LocalRound
from fedmirage.common.methods.distil import Distil
from fedmirage.common.wire.preparation import Preparation


class DistilClient(Objective[Distil]):
    """The images are made before the first round, and stay as they are."""

    def prepare_client(self, local: LocalClient, until: float) -> Preparation:
        """Learn the virtual images, turn by turn."""
        return prepare_virtual_set(self.params, local, until)

    def begin(self, local: LocalRound) -> None:
        """Replace the client's data by its virtual images."""
        virtual = virtual_set(self.params, local)
        local.data.replace(virtual.images, virtual.labels)
        if math.isfinite(virtual.loss):
            local.report["distil.loss"] = virtual.loss
        if local.images is not None:
            draw_virtual_set(
                local, virtual, local.images / f"client-{local.partition:05d}-distil.png"
            )
