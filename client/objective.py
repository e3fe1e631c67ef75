"""A method's client half: its terms in the local objective, and what it does around them.

In one round, `FederatedClient.fit` (client/client.py) and the loop (client/train.py) call these for
every method of the run, from left to right, but first for the one that replaces the data:

    begin                  once, before the first batch
    before_step            for each batch, before the forward pass
    extra_images           for each batch: what shares that pass
    gradients              for each batch; its `compute` runs the forward pass, adds up the task's
                           loss (`task_loss`) and the `terms` of all methods, and goes backward
    after_step             for each batch, after the optimiser's step
    end, then share        once: what is sent besides the model, and the model itself
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from fedmirage.client.round import LocalClient, LocalRound, Step
from fedmirage.common.methods import Method
from fedmirage.common.wire.payload import Array, Sections
from fedmirage.common.wire.preparation import Preparation

M = TypeVar("M", bound=Method)
Loss = Callable[[Tensor], Tensor]  # logits of the real batch -> a scalar


class Objective(Generic[M]):
    """A method's client half. Override what the method needs; the defaults are FedAvg."""

    task_weight: float = 1.0  # scales the loss on real data, and nothing else
    stages: tuple[str, ...] = ()  # the stages of the model whose maps `terms` looks at

    def __init__(self, params: M) -> None:
        self.params = params

    def prepare_client(self, local: LocalClient, until: float) -> Preparation:
        """Do what must be done before this client's first round, if the method `prepares`.

        Stop soon after time.monotonic() has reached `until`, save what was done, and say how far it
        is; further calls, perhaps in other processes, go on from there.
        """
        return Preparation()

    def begin(self, local: LocalRound) -> None:
        """Prepare the round before the first batch: synthesise, restore, replace the data."""

    def before_step(self, step: Step) -> None:
        """Draw what this batch needs, before its forward pass.

        `terms` may be computed more than once per batch, so it must not draw anything itself.
        """

    def extra_images(self, step: Step) -> Tensor | None:
        """Return images that must go through the model in one pass with the real batch."""
        return None

    def task_loss(self, step: Step, compute: Loss, logits: Tensor) -> Tensor:
        """Return the task's own loss of one batch, of these logits instead of `step.logits`.

        `compute` evaluates it as the methods to the left leave it. A method further right may have
        changed the logits, and `task_weight` scales the result.
        """
        return compute(logits)

    def terms(self, step: Step) -> dict[str, Tensor]:
        """Return named, weighted additions to the loss of one batch."""
        return {}

    def gradients(self, step: Step, compute: Callable[[], None]) -> None:
        """Leave the gradients of this batch on the parameters.

        `compute` evaluates the loss and its gradients once.
        """
        compute()

    def after_step(self, step: Step) -> None:
        """Act after the optimiser's step on this batch."""

    def end(self, local: LocalRound) -> Sections:
        """Act after the last batch: remember, and return what is sent besides `shared`."""
        return {}

    def share(self, local: LocalRound, shared: dict[str, Array]) -> dict[str, Array]:
        """Return what is sent as `shared`, by name, if that is not simply the trained weights."""
        return shared
