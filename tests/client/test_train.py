"""The training loop: when a method's hooks are called."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from fedmirage.client.objective import Objective, Step
from fedmirage.client.train import train
from fedmirage.common.memory import Memory
from fedmirage.common.methods import Method
from fedmirage.common.methods.fedprox import FedProx
from fedmirage.common.methods.fedsam import FedSam
from tests.support.hand import linear_model, open_round, settings


class Watcher(Objective[Method]):
    """Writes down each call, and the value of the model's only weight at that time."""

    def __init__(self, params: Method, calls: list[tuple[str, str, int, float]]) -> None:
        super().__init__(params)
        self.calls = calls

    def note(self, hook: str, step: Step) -> None:
        weight = float(step.local.model.classifier.weight.detach()[0, 0])
        self.calls.append((self.params.name, hook, step.number, weight))

    def before_step(self, step: Step) -> None:
        assert not hasattr(step, "logits")
        self.note("before", step)

    def extra_images(self, step: Step) -> Tensor | None:
        self.note("extra", step)
        return None

    def terms(self, step: Step) -> dict[str, Tensor]:
        self.note("terms", step)
        return {f"{self.params.name}": torch.zeros(())}

    def after_step(self, step: Step) -> None:
        self.note("after", step)


class Twice(Watcher):
    """Evaluates the loss of every batch twice, as FedSAM does."""

    def gradients(self, step: Step, compute: Callable[[], None]) -> None:
        compute()
        compute()


def test_hooks_come_before_and_after_every_batch_and_once_however_often_it_is_evaluated(
    tmp_path: Path,
) -> None:
    """y = w x with w = 0, x = 1, t = 1 and lr = 1/2: w = 1/2 after the first batch, then 3/4."""
    calls: list[tuple[str, str, int, float]] = []
    batch = ([[1.0]], [1.0])
    local = open_round(linear_model(0.0), [batch, batch], settings("fedavg"), Memory(tmp_path, 1))
    train(local, [Watcher(FedProx(), calls), Twice(FedSam(), calls)])
    expected = []
    for step, before, after in ((0, 0.0, 0.5), (1, 0.5, 0.75)):
        for hook, times in (("before", 1), ("extra", 1), ("terms", 2)):
            both = [("fedprox", hook, step, before), ("fedsam", hook, step, before)]
            expected += both * times
        expected += [("fedprox", "after", step, after), ("fedsam", "after", step, after)]
    assert calls == expected
