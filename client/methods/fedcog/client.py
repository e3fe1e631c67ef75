"""FedCOG on the client: synthesise what is lacking, then train close to the consensus.

Declared in common/methods/fedcog.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from fedmirage.client.data import batch_norms, has_batch_statistics
from fedmirage.client.methods.fedcog.generation import Virtual, synthesise
from fedmirage.client.methods.fedcog.labels import balancing_weights
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.common.data.batches import ENDLESS, Resident, batches
from fedmirage.common.learning.losses import bernoulli, distillation
from fedmirage.common.learning.task import MultiLabel
from fedmirage.common.memory import LOCAL_MODEL
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import Model, frozen
from fedmirage.common.wire.manifest import from_arrays


class FedCogClient(Objective[FedCog]):
    """Holds the generated samples for the length of a round; without them, a round is FedAvg's."""

    teacher: Model  # theta^t, the received model; kept only if images are made again
    virtual: Virtual | None = None
    weight = 0.0  # w_kd
    # Positions in `virtual`, batch after batch, shuffled anew in every pass.
    order: Iterator[Tensor]
    # Those of this step. They are chosen between steps: a step's loss may be evaluated twice.
    index: Tensor

    def begin(self, local: LocalRound) -> None:
        """Generate the samples (Algorithm 1, line 5).

        With automatic weights, a balanced client has nothing to distil: its round is FedAvg's.
        """
        params, counts = self.params, local.data.class_counts
        if not params.acts_in(local.number):
            return
        real, distilled = (
            balancing_weights(counts) if params.kd_weight == "auto" else (1.0, params.lambda_kd)
        )
        if params.source == "none":
            self.task_weight = real
        elif distilled and params.samples:
            teacher = frozen(local.model)
            virtual = synthesise(params, local, teacher, load_previous(local))
            self.take(local, virtual, "fedcog.batches")
            if params.regenerate:
                self.teacher = teacher
            if self.virtual is not None:
                self.task_weight, self.weight = real, distilled
        local.report["fedcog.task_weight"] = self.task_weight
        local.report["fedcog.absent_classes"] = int((counts == 0).sum())

    def extra_images(self, step: Step) -> Tensor | None:
        """Send the generated batch through the model together with the real one.

        One pass is faster than two, but BatchNorm would mix the statistics of both.
        """
        if self.virtual is None or has_batch_statistics(step.local.model):
            return None
        return self.chosen_images(self.virtual)

    def chosen_images(self, virtual: Virtual) -> Tensor:
        """Return the generated images of this step."""
        return Resident(virtual.images, virtual.labels).take(self.index)[0]

    def terms(self, step: Step) -> dict[str, Tensor]:
        """w_kd KL(p(theta^t; x) || p(theta; x)) (eq. 3) on one batch of generated samples."""
        if self.virtual is None:
            return {}
        model, task = step.local.model, step.local.task
        student = step.extra_logits.get(self.params.name)
        if student is None:
            with running_statistics(model):
                student = model(self.chosen_images(self.virtual))
        student = student[:, : step.local.classes]  # (batch, classes)
        teacher = self.virtual.logits.index_select(0, self.index)  # (batch, classes)
        if self.params.supervision == "hard":
            labels = self.virtual.labels.index_select(0, self.index)
            return {"distillation": self.weight * task.loss(student, labels)}
        if task.name == MultiLabel.name:
            student, teacher = bernoulli(student), bernoulli(teacher)
        return {
            "distillation": self.weight * distillation(student, teacher, self.params.temperature)
        }

    def after_step(self, step: Step) -> None:
        """Go on to the next batch; with `regenerate`, make new images after half of the steps."""
        if self.virtual is None:
            return
        local = step.local
        if self.params.regenerate and step.number + 1 == planned_steps(local) // 2:
            again = synthesise(self.params, local, self.teacher, frozen(local.model), "fedcog.half")
            self.take(local, again or self.virtual, "fedcog.half.batches")
        else:
            self.index = next(self.order)

    def take(self, local: LocalRound, virtual: Virtual | None, purpose: str) -> None:
        """Distil these samples from now on; a set smaller than a batch is one batch."""
        self.virtual = virtual
        if virtual is not None:
            random, size = local.generator(purpose), local.config.batch_size
            found = batches(len(virtual.labels), random, size, steps=ENDLESS)
            self.order = (index.to(local.device) for index in found)
            self.index = next(self.order)


def load_previous(local: LocalRound) -> Model | None:
    """Load theta_k^{t-1}, this client's own last model, however old; None on a first visit."""
    remembered = local.memory.get(LOCAL_MODEL)
    if remembered is None:
        return None
    model = frozen(local.model)
    from_arrays(model, remembered)
    local.report["fedcog.partner_age"] = float(local.memory.age or 0)
    return model


def planned_steps(local: LocalRound) -> int:
    """tau: the number of batches that the round will have."""
    config = local.config
    return config.local_steps or config.local_epochs * -(-len(local.data) // config.batch_size)


@contextmanager
def running_statistics(model: nn.Module) -> Iterator[None]:
    """Let BatchNorm use its running statistics, as for the teacher, and leave them unchanged.

    Differs from the code: generated batches do not move the statistics, because the averaged model
    is evaluated with them.
    """
    norms = [norm for norm in batch_norms(model) if norm.training]
    for norm in norms:
        norm.eval()
    try:
        yield
    finally:
        for norm in norms:
            norm.train()
