"""FedLGD on a client: a round by hand, what the contrast moves, which images are trained on."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedmirage.client.data import LocalData
from fedmirage.client.methods.fedlgd import FedLgdClient
from fedmirage.client.objective import LocalRound, Step
from fedmirage.client.train import train
from fedmirage.common.data.batches import Resident
from fedmirage.common.learning.losses import kernel_discrepancy
from fedmirage.common.memory import Memory
from fedmirage.common.methods.fedlgd import GLOBAL, REMEMBERED_LOCAL, FedLgd
from fedmirage.common.methods.fedlgd.images import encode
from fedmirage.common.models.base import Model
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.handout import digest
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from tests.support.facts import make_facts

LABELS = np.array([0, 1], np.int16)


def linear(*weights: float) -> Model:
    """One pixel to the features x * weights, then two logits, all 0."""
    width = len(weights)
    model = Model(
        nn.Sequential(nn.Flatten(), nn.Linear(1, width, bias=False)),
        nn.Linear(width, 2, bias=False),
        width,
    )
    from_arrays(model, [np.array(weights, np.float32)[:, None], np.zeros((2, width), np.float32)])
    return model


def pixels(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(-1, 1, 1, 1)


def open_round(
    folder: Path, model: Model, number: int, given: np.ndarray | None = None, **params: Any
) -> LocalRound:
    """A round of a client whose real images are black and white, and whose V is one image, 1."""
    before = Memory(folder, number - 1)
    before.put(REMEMBERED_LOCAL, [pixels(1.0), np.array([0])])
    before.close()
    line = ", ".join(f"{key}={value!r}" for key, value in params.items())
    settings = {"batch_size": 64, "local_steps": 1, "lr": 1.0, "momentum": 0.0}
    config = configure({"methods": f"fedlgd({line})", **settings})
    real = torch.tensor([0, 255, 0, 255], dtype=torch.uint8).view(-1, 1, 1, 1)
    resident = Resident(real, torch.tensor([0, 0, 1, 1]))
    arrays = [] if given is None else [*encode(given, "half"), LABELS]
    return LocalRound(
        number=number,
        partition=0,
        run=make_facts(config, model),
        model=model,
        data=LocalData(resident, (0.5,), (0.5,), np.array([2, 2])),
        received={GLOBAL: [digest(arrays), *arrays]} if arrays else {},
        memory=Memory(folder, number),
        lr=1.0,
    )


def visit(local: LocalRound) -> tuple[dict[str, float], FedLgdClient]:
    half = FedLgdClient(local.config.method_list[0])  # type: ignore[arg-type]
    half.begin(local)
    return train(local, [half]), half


def test_a_round_by_hand(tmp_path: Path) -> None:
    """V is one image, 1, of class 0; G is 1 of class 0 and -1 of class 1; z = (x, 0), T = 1.

    The batch is V and G, all logits are 0, and the cross-entropy is log 2. The contrast has five
    rows, those of the batch and of G again: 1, 1, -1 and 1, -1. Each of the three rows 1 has two
    partners at cosine 1 and two others at -1, and gives log(2e + 2/e) - 1; each of the two rows -1
    has one partner and three others, and gives log(e + 3/e) - 1. The head's gradient is the mean of
    (1/2 - [label]) z, which is (-1/2, 1/2) for all three images.
    """
    model = linear(1.0, 0.0)
    local = open_round(tmp_path, model, 2, pixels(1, -1), temperature=1.0, contrast_weight=10.0)
    terms, _ = visit(local)
    assert terms["task"] == pytest.approx(math.log(2))
    near, far = math.log(2 * math.e + 2 / math.e) - 1, math.log(math.e + 3 / math.e) - 1
    assert terms["global_contrast"] == pytest.approx(10 * (3 * near + 2 * far) / 5, rel=1e-5)
    np.testing.assert_allclose(to_arrays(model)[1][:, 0], [0.5, -0.5], atol=1e-6)
    assert local.data.class_counts.tolist() == [2, 1]
    assert len(local.data) == 3


def test_a_distillation_round_has_no_contrast(tmp_path: Path) -> None:
    """Rounds 1, 6, 11, ... are; in them V is refreshed (but not in the first) and trained on."""
    for number, refreshed in ((6, True), (7, False)):
        local = open_round(
            tmp_path / str(number), linear(1.0, 0.5), number, pixels(1, -1), augment=""
        )
        terms, half = visit(local)
        assert set(terms) == ({"task"} if refreshed else {"task", "global_contrast"})
        assert (half.anchors is None) == refreshed
        assert ("fedlgd.refresh_loss" in local.report) == refreshed


def test_a_refresh_moves_the_image_to_where_the_real_ones_are_on_average(tmp_path: Path) -> None:
    """Real images of class 0 are -1 and 1, and so their mean feature is 0; V starts at 1.

    The features are x * (1/2, 1/2): the distance is (v / 2)^2 + (v / 2)^2 = v^2 / 2, and its
    derivative v. One step with learning rate 0.5 leads from 1 to 0.5.
    """
    model = linear(0.5, 0.5)
    before = [array.copy() for array in to_arrays(model)]
    params = {"refresh_steps": 1, "pixel_lr": 0.5, "augment": "", "use_global_from": 99}
    local = open_round(tmp_path, model, 6, **params)
    half = FedLgdClient(local.config.method_list[0])  # type: ignore[arg-type]
    half.begin(local)
    (images, _) = local.memory.get(REMEMBERED_LOCAL) or []
    assert images.item() == pytest.approx(0.5)
    assert local.report["fedlgd.refresh_loss"] == pytest.approx(0.5)
    assert local.data.resident.images.item() == pytest.approx(0.5)
    assert all(np.array_equal(a, b) for a, b in zip(before, to_arrays(model), strict=True))


def test_pixels_that_are_not_finite_are_undone(tmp_path: Path) -> None:
    """With an absurd learning rate every step is undone, and V stays as it was."""
    params = {"refresh_steps": 3, "pixel_lr": 1e42, "augment": "", "use_global_from": 99}
    local = open_round(tmp_path, linear(0.5, 0.5), 6, **params)
    FedLgdClient(local.config.method_list[0]).begin(local)  # type: ignore[arg-type]
    (images, _) = local.memory.get(REMEMBERED_LOCAL) or []
    assert images.item() == 1


@pytest.mark.parametrize("contrast", ["supervised", "mmd"])
def test_the_contrast_moves_local_and_global_features(contrast: str) -> None:
    """Unlike VHL's, neither side is held fixed."""
    half = FedLgdClient(FedLgd(contrast=contrast, contrast_weight=2.0))  # type: ignore[arg-type]
    step = Step.__new__(Step)
    step.labels, step.features = torch.tensor([0, 1, 0]), torch.randn(3, 4, requires_grad=True)
    anchors = torch.randn(2, 4, requires_grad=True)
    step.extra_features = {"fedlgd": anchors}
    half.anchors, half.anchor_labels = torch.zeros(2), torch.tensor([0, 1])
    (term,) = half.terms(step).values()
    term.backward()
    for features in (step.features, anchors):
        assert features.grad is not None
        assert bool(features.grad.abs().sum(dim=1).all())
    if contrast == "mmd":
        torch.testing.assert_close(term, 2 * kernel_discrepancy(step.features, anchors))


def test_algorithm_1_trains_on_local_images_alone(tmp_path: Path) -> None:
    local = open_round(tmp_path, linear(1.0, 0.5), 2, pixels(1, -1), train_on_global=False)
    terms, _ = visit(local)
    assert set(terms) == {"task", "global_contrast"}
    assert len(local.data) == 1


def test_without_a_weight_global_images_are_training_data_only(tmp_path: Path) -> None:
    local = open_round(tmp_path, linear(1.0, 0.5), 2, pixels(1, -1), contrast_weight=0)
    terms, half = visit(local)
    assert set(terms) == {"task"}
    assert half.anchors is None
    assert len(local.data) == 3
