"""FedLC: the limit, losses by hand and by brute force, whose counts, and what it composes with."""

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.client.methods.fedlc import FedLcClient
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound
from fedmirage.client.train import local_objective
from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.task import SingleLabel
from fedmirage.common.methods.fedavg import FedAvg
from fedmirage.common.methods.fedlc import FedLc
from tests.support.inprocess import run_in_process
from tests.support.methods import add_methods
from tests.support.pairs import BASE, line
from tests.support.runs import SMALL, assert_same_bits, lines, weights


def calibrated(tau: float, counts: list[int]) -> FedLcClient:
    """A client with this many samples of every class, after `begin`."""
    client = FedLcClient(FedLc(tau=tau))
    data = SimpleNamespace(class_counts=np.array(counts))
    client.begin(SimpleNamespace(data=data, device="cpu"))  # type: ignore[arg-type]
    return client


def loss(client: FedLcClient, logits: Tensor, labels: list[int]) -> Tensor:
    cross_entropy = partial(SingleLabel().loss, labels=torch.tensor(labels))
    return client.task_loss(None, cross_entropy, logits)  # type: ignore[arg-type]


def test_without_tau_it_is_fedavg_bit_for_bit(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL)
    run_in_process(tmp_path / "fedlc", **SMALL, methods="fedlc(tau=0)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedlc")


def test_a_loss_by_hand() -> None:
    """With 16, 1 and 0 samples and tau = 1 the margins are 1/2, 1 and infinity.

    If all logits are 0, class 0 has the probability e^{-1/2} / (e^{-1/2} + e^{-1}) = 1 / (1 +
    e^{-1/2}), class 1 the rest, class 2 none. The loss of a sample of class 0 is log(1 + e^{-1/2}),
    the gradient p - (1, 0, 0); a sample of the rare class 1 costs 1/2 more.
    """
    client, logits = calibrated(1.0, [16, 1, 0]), torch.zeros(1, 3, requires_grad=True)
    frequent = loss(client, logits, [0])
    assert frequent.item() == pytest.approx(math.log(1 + math.exp(-0.5)))
    assert loss(client, logits, [1]).item() == pytest.approx(math.log(1 + math.exp(-0.5)) + 0.5)
    frequent.backward()
    rare = 1 - 1 / (1 + math.exp(-0.5))
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([-rare, rare, 0])


@pytest.mark.parametrize("added", [0, 4])
def test_brute_force(added: int) -> None:
    """Sample by sample and class by class; outputs that another method adds have no margin."""
    generator, tau = np.random.default_rng(3), 0.7
    counts = [5, 0, 120, 1, 0, 33]
    logits = generator.normal(size=(8, len(counts) + added)) * 3
    labels = generator.choice(np.nonzero(counts)[0], 8).tolist()
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        exponentials = {
            output: math.exp(value - (tau / counts[output] ** 0.25 if output < 6 else 0))
            for output, value in enumerate(row)
            if output >= 6 or counts[output]
        }
        total -= math.log(exponentials[label] / sum(exponentials.values())) / len(labels)
    found = loss(calibrated(tau, counts), torch.tensor(logits), labels)
    assert float(found) == pytest.approx(total)


class Weighing(Objective[FedAvg]):
    """Scales the task's loss, as FedCOG does."""

    task_weight = 0.25


class Smoothing(Objective[FedAvg]):
    """Mixes the task's loss with that of a fixed second label."""

    def task_loss(self, step: Any, compute: Any, logits: Tensor) -> Tensor:
        return (compute(logits) + F.cross_entropy(logits, torch.tensor([1]))) / 2


@pytest.mark.parametrize("reverse", [False, True])
def test_it_composes_with_a_weight_and_with_another_change_of_the_loss(reverse: bool) -> None:
    """By hand with margins m = (1/2, 1) and logits 0: the label 0 costs a = log(1 + e^{-1/2}).

    Outside of the calibration, the smoothing sees plain logits: (a + log 2) / 2. Inside, it sees
    calibrated ones: (a + a + 1/2) / 2. A quarter of that enters the objective.
    """
    client, a = calibrated(1.0, [16, 1]), math.log(1 + math.exp(-0.5))
    step = SimpleNamespace(
        local=SimpleNamespace(task=SingleLabel()),
        logits=torch.zeros(1, 2),
        labels=torch.tensor([0]),
        forward=lambda: None,
    )
    objectives = [client, Weighing(FedAvg()), Smoothing(FedAvg())]
    terms = local_objective(objectives[::-1] if reverse else objectives, step)  # type: ignore[arg-type]
    smoothed = (a + a + 0.5) / 2 if reverse else (a + math.log(2)) / 2
    assert {name: float(term) for name, term in terms.items()} == pytest.approx(
        {"task": smoothed / 4}
    )


@pytest.mark.parametrize("other", ["fedcog(start=1, source='none', kd_weight='auto')", "vhl"])
def test_two_rounds_beside_a_weight_on_the_loss_and_a_wider_head(
    tmp_path: Path, other: str
) -> None:
    """The order does not matter: both change the same sum. FedLC's loss is what counts."""
    other = line("vhl") if other == "vhl" else other
    for name, methods in {
        "left": f"fedlc, {other}",
        "right": f"{other}, fedlc",
        "without": other,
    }.items():
        run_in_process(tmp_path / name, **BASE, methods=methods)
    assert_same_bits(tmp_path / "left", tmp_path / "right")
    left, without = weights(tmp_path / "left"), weights(tmp_path / "without")
    assert all(np.isfinite(array).all() for array in left)
    assert max(np.abs(a - b).max() for a, b in zip(left, without, strict=True)) > 1e-4
    if other.startswith("fedcog"):
        # Round 1 begins with equal weights: in a softmax of two classes, the loss is smaller.
        first = [lines(tmp_path / name)[0]["train"]["task"] for name in ("left", "without")]
        assert first[0] < first[1]


def test_counts_are_those_of_what_the_client_trains_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own samples, or the two images of a method that replaces them, wherever that stands."""
    seen: dict[str, dict[int, list[int]]] = {}

    def watch(self: FedLcClient, local: LocalRound) -> None:
        begin(self, local)
        assert self.margins is not None
        counts = (self.params.tau / self.margins) ** 4
        seen[local.config.methods][local.partition] = counts.round().int().tolist()
        own[local.partition] = local.data.real_class_counts.tolist()

    begin, own = FedLcClient.begin, dict[int, list[int]]()
    monkeypatch.setattr(FedLcClient, "begin", watch)
    with add_methods():
        for methods in ("fedlc", "fedlc, stand-in", "stand-in, fedlc"):
            seen[methods] = {}
            run_in_process(tmp_path / methods, **{**BASE, "rounds": 1}, methods=methods)
    assert seen["fedlc"] == own
    assert len({tuple(counts) for counts in own.values()}) > 1
    assert seen["fedlc, stand-in"] == seen["stand-in, fedlc"]
    assert seen["stand-in, fedlc"] == {
        client: [min(count, 1) for count in counts] for client, counts in own.items()
    }


def test_multi_label_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="margins are between classes that exclude each other"):
        run_in_process(tmp_path, dataset="digits-multi", methods="fedlc")
