"""What a client's optimiser keeps between rounds: one uninterrupted optimiser, cut into rounds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedmirage.client.train import make_optimizer
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.memory import Memory
from fedmirage.common.settings.config import configure
from tests.support.hand import Batch, linear_model, open_round, settings, visit

KINDS = [
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "adam", "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1},
]
BATCHES: list[Batch] = [
    ([[1.0, 2.0], [0.5, -1.0]], [1.0, 0.0]),
    ([[-1.0, 0.3], [2.0, 1.0]], [0.5, 2.0]),
    ([[0.1, 0.7], [1.5, -2.0]], [-1.0, 1.0]),
    ([[2.0, 2.0], [-0.5, 1.0]], [3.0, 0.2]),
]


def train_round(
    folder: Path,
    number: int,
    start: Any,
    batches: list[Batch],
    since: int | None = None,
    **more: Any,
) -> list[np.ndarray]:
    """One client's round from given weights; returns the weights that it leads to."""
    model = linear_model(*np.ravel(start[0]).tolist())
    config = settings("fedavg", **{"lr": 0.05, "optimizer_state": "kept", **more})
    visit(open_round(model, batches, config, Memory(folder, number, since=since)))
    return [weight.detach().numpy().copy() for weight in model.parameters()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind["optimizer"]))
def test_rounds_of_one_client_are_one_uninterrupted_run(
    tmp_path: Path, kind: dict[str, Any]
) -> None:
    """The rate is the round's own: it halves after the first two batches."""
    schedule = {"schedule": "exponential(factor=0.5)", **kind}
    between = train_round(tmp_path, 1, [[0.5, -0.5]], BATCHES[:2], **schedule)
    after = train_round(tmp_path, 2, between, BATCHES[2:], **schedule)

    model = linear_model(0.5, -0.5)
    whole = make_optimizer(settings("fedavg", **kind), list(model.parameters()), 0.05)
    for step, (images, labels) in enumerate(BATCHES):
        whole.param_groups[0]["lr"] = 0.05 if step < 2 else 0.025
        whole.zero_grad()
        loss = (model(torch.tensor(images))[:, 0] - torch.tensor(labels)).square().mean() / 2
        loss.backward()
        whole.step()
    assert after[0].tobytes() == model.classifier.weight.detach().numpy().tobytes()

    fresh = train_round(tmp_path / "fresh", 2, between, BATCHES[2:], **schedule)
    assert fresh[0].tobytes() != after[0].tobytes()


def test_momentum_by_hand(tmp_path: Path) -> None:
    """y = w x with x = 1, t = 0, w = 1, lr 0.5 and momentum 0.5: the gradient is w.

    Round 1: buffer 1, w = 1 - 0.5 = 0.5. Round 2: buffer 0.5 * 1 + 0.5 = 1, w = 0.5 - 0.5 = 0.
    Afresh, round 2 has the buffer 0.5 and leads to 0.25.
    """
    batch: list[Batch] = [([[1.0]], [0.0])]
    more = {"optimizer": "sgd", "momentum": 0.5, "lr": 0.5}
    first = train_round(tmp_path, 1, [[1.0]], batch, **more)
    assert first[0].tolist() == [[0.5]]
    assert train_round(tmp_path, 2, first, batch, **more)[0].tolist() == [[0.0]]
    more["optimizer_state"] = "fresh"
    assert train_round(tmp_path, 2, first, batch, **more)[0].tolist() == [[0.25]]


def test_a_round_that_did_not_count_leaves_no_trace(tmp_path: Path) -> None:
    adam = {"optimizer": "adam"}
    ends = []
    for name, lost in (("never", False), ("lost", True)):
        between = train_round(tmp_path / name, 1, [[0.5, -0.5]], BATCHES[:1], since=0, **adam)
        if lost:
            train_round(tmp_path / name, 2, between, BATCHES[1:3], since=1, **adam)
        ends.append(train_round(tmp_path / name, 3, between, BATCHES[3:], since=1, **adam))
    assert ends[0][0].tobytes() == ends[1][0].tobytes()


def test_a_fresh_round_forgets_what_was_kept(tmp_path: Path) -> None:
    train_round(tmp_path, 1, [[0.5, -0.5]], BATCHES, optimizer="adam")
    assert Memory(tmp_path, 2).get("optimizer.adam.classifier.weight") is not None
    train_round(tmp_path, 2, [[0.5, -0.5]], BATCHES, optimizer="adam", optimizer_state="fresh")
    assert Memory(tmp_path, 3).get("optimizer.adam.classifier.weight") is None


def test_another_optimiser_takes_nothing_over(tmp_path: Path) -> None:
    sgd = {"optimizer": "sgd", "momentum": 0.9}
    train_round(tmp_path, 1, [[0.5, -0.5]], BATCHES, optimizer="adam")
    after = train_round(tmp_path, 2, [[0.5, -0.5]], BATCHES, **sgd)
    alone = train_round(tmp_path / "alone", 2, [[0.5, -0.5]], BATCHES, **sgd)
    assert after[0].tobytes() == alone[0].tobytes()
    assert Memory(tmp_path, 3).get("optimizer.adam.classifier.weight") is None


def test_the_state_of_another_model_is_refused(tmp_path: Path) -> None:
    train_round(tmp_path, 1, [[0.5, -0.5]], BATCHES, optimizer="adam")
    with pytest.raises(FedmirageError, match=r"has the shape|with the shape \(1, 2\)"):
        train_round(tmp_path, 2, [[0.5]], [([[1.0]], [0.0])], optimizer="adam")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "sgd' with momentum=0 has no state"),
        ({"momentum": 0.9, "methods": "scaffold"}, "scaffold divides"),
        ({"momentum": 0.9, "methods": "fednova"}, "fednova divides"),
        ({"optimizer_state": "keep", "momentum": 0.9}, "optimizer-state='keep'"),
    ],
)
def test_refusals(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"optimizer_state": "kept", **given})
    assert words in str(refusal.value)
