"""FedCOG's client half: what it distils, its partner, regeneration, and when it does nothing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedmirage.client.methods.fedcog.client import FedCogClient, running_statistics
from fedmirage.client.methods.fedcog.generation import synthesise
from fedmirage.client.objective import LocalRound, Step
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import frozen
from fedmirage.common.models.factory import build
from tests.support.fedcog import BATCH_NORM, FAST, another, local_round, made


def begun(local: LocalRound, **params: Any) -> FedCogClient:
    half = FedCogClient(FedCog(**{**FAST, "start": 1, **params}))
    half.begin(local)
    return half


def term(half: FedCogClient, local: LocalRound) -> float:
    return float(half.terms(first_step(half, local))["distillation"].detach())


def first_step(half: FedCogClient, local: LocalRound) -> Step:
    """The first step, with its pass through the model if the generated images take part in it."""
    step = Step(local, 0, *next(iter(local.data.batches(local))))
    extra = half.extra_images(step)
    if extra is not None:
        step.extra_images["fedcog"] = extra
        step.forward()
    return step


@pytest.mark.parametrize("model", ["mlp(hidden=8)", BATCH_NORM])
def test_distillation_begins_at_zero_and_leaves_statistics_alone(
    tmp_path: Path, model: str
) -> None:
    """The student begins as the teacher.

    With BatchNorm, this is so only if both normalise by the same statistics.
    """
    local = local_round(tmp_path, [0] * 4, model=model)
    half = begun(local)
    local.model.train()
    before = {name: value.clone() for name, value in local.model.state_dict().items()}
    assert term(half, local) == pytest.approx(0, abs=1e-6)
    assert all(torch.equal(value, before[name]) for name, value in local.model.state_dict().items())
    assert all(module.training for module in local.model.modules())


@pytest.mark.parametrize("supervision", ["soft", "hard"])
def test_one_pass_for_both_batches_gives_what_two_passes_give(
    tmp_path: Path, supervision: str
) -> None:
    local = local_round(tmp_path, [0] * 4)
    half = begun(local, supervision=supervision)
    with torch.no_grad():
        for parameter in local.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    together = first_step(half, local)
    apart = Step(local, 0, together.images, together.labels)
    apart.forward()
    assert together.extra_logits.keys() == {"fedcog"}
    assert not apart.extra_logits
    found = []
    for step in (together, apart):
        loss = half.terms(step)["distillation"] + local.task.loss(step.logits, step.labels)
        found.append([loss, *torch.autograd.grad(loss, local.trainable())])
    assert found[0][0] > 0
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected)


def test_with_batch_norm_generated_images_have_a_pass_of_their_own(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4, model=BATCH_NORM)
    assert not first_step(begun(local), local).extra_images


def test_a_layer_that_was_frozen_stays_so() -> None:
    model = build(BATCH_NORM, (1, 6, 6), 4)
    norm = next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d))
    norm.eval()
    with running_statistics(model):
        pass
    assert not norm.training


def test_hard_supervision_is_cross_entropy_on_the_target(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4)
    half = begun(local, supervision="hard", kd_weight="fixed", lambda_kd=0.5)
    assert half.virtual is not None
    images, labels = half.virtual.images[half.index], half.virtual.labels[half.index]
    expected = 0.5 * float(nn.functional.cross_entropy(local.model(images), labels).detach())
    assert term(half, local) == pytest.approx(expected)


def test_a_pass_over_the_samples_misses_none(tmp_path: Path) -> None:
    """Twelve samples in batches of 5 give 5, 5 and 2, and are then shuffled anew.

    If there are fewer samples than a batch has, all of them are taken every time.
    """
    local = local_round(tmp_path, [0] * 4, batch_size=5)
    half = begun(local)
    passes = []
    for number in range(6):
        passes.append(half.index.tolist())
        half.after_step(Step(local, number, torch.empty(0), torch.empty(0)))
    assert [len(index) for index in passes] == [5, 5, 2] * 2
    for one_pass in (passes[:3], passes[3:]):
        assert sorted(position for index in one_pass for position in index) == list(range(12))
    assert passes[:3] != passes[3:]
    few = begun(local, samples=3)
    assert sorted(few.index.tolist()) == [0, 1, 2]


def test_a_step_that_is_evaluated_twice_sees_one_batch(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4)
    half = begun(local, supervision="hard")
    assert term(half, local) == term(half, local)


def test_the_partner_is_the_clients_own_last_model_however_old(tmp_path: Path) -> None:
    """Its last visit was in round 57, now it is round 60: three rounds. On a first visit there is
    no disagreement."""
    other = another()
    local = local_round(tmp_path / "a", [0] * 4, previous=other)
    with_partner = begun(local).virtual
    assert local.report["fedcog.partner_age"] == 3
    first = local_round(tmp_path / "b", [0] * 4)
    alone = begun(first).virtual
    assert "fedcog.partner_age" not in first.report
    assert with_partner is not None
    assert alone is not None
    expected = made(local_round(tmp_path / "c", [0] * 4), frozen(other))
    assert torch.equal(with_partner.images, expected.images)
    assert torch.equal(
        alone.images, made(local_round(tmp_path / "d", [0] * 4), lambda_dis=0.0).images
    )
    assert not torch.equal(with_partner.images, alone.images)


def test_half_way_new_images_against_the_half_trained_model(tmp_path: Path) -> None:
    """Six steps: after the third. The teacher is still the received model."""
    local = local_round(tmp_path, [0] * 4, previous=another())
    half = begun(local, regenerate=True)
    first, received = half.virtual, frozen(local.model)
    with torch.no_grad():
        for parameter in local.model.parameters():
            parameter.add_(0.5)
    changed = []
    for number in range(6):
        before = half.virtual
        half.after_step(Step(local, number, torch.empty(0), torch.empty(0)))
        changed.append(half.virtual is not before)
    assert changed == [False, False, True, False, False, False]
    expected = synthesise(FedCog(**FAST), local, received, frozen(local.model), "fedcog.half")
    assert half.virtual is not None
    assert first is not None
    assert expected is not None
    assert torch.equal(half.virtual.images, expected.images)
    assert torch.equal(half.virtual.logits, received(half.virtual.images).detach())
    assert not torch.equal(half.virtual.images, first.images)


def test_nothing_finite_means_plain_training(tmp_path: Path) -> None:
    local = local_round(tmp_path, [0] * 4)
    with torch.no_grad():
        local.model.classifier.weight.fill_(1e38)
        local.model.features[1].linear.weight.fill_(1e10)  # type: ignore[union-attr,operator]
    half = begun(local)
    assert half.virtual is None
    assert half.task_weight == 1
    assert half.terms(Step(local, 0, torch.empty(0), torch.empty(0))) == {}


def test_the_control_scales_and_does_nothing_else(tmp_path: Path) -> None:
    half = begun(local_round(tmp_path, [0] * 4), source="none")
    assert half.virtual is None
    assert half.task_weight == 0.25
