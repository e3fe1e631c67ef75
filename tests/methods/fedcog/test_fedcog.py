"""FedCOG in whole rounds: the limits in which it is FedAvg, a round by hand, and the cases of its
method card."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fedmirage.client.data import LocalData
from fedmirage.common.data.batches import Resident
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import Memory
from fedmirage.common.models.base import Model
from fedmirage.common.seeds import torch_generator
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.server.record.results import read_results
from tests.support.facts import make_facts
from tests.support.hand import open_round, settings, visit
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits, lines, weights

TINY = "fedcog(start=1, samples=6, steps=2)"
BALANCED = {
    **SMALL,
    "clients": 2,
    "rounds": 2,
    "partition": "classes(per_client=10, samples=40)",
    "dataset": "digits",
}


@pytest.mark.parametrize(
    "line",
    [
        "fedcog",  # starts after the last round
        "fedcog(start=1, kd_weight='fixed', lambda_kd=0)",
        "fedcog(start=1, samples=0)",
        "fedcog(start=1, source='none', kd_weight='fixed')",
    ],
)
@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_limits_in_which_it_is_fedavg_bit_for_bit(tmp_path: Path, line: str, model: str) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, model=model)
    run_in_process(tmp_path / "fedcog", **SMALL, model=model, methods=line)
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedcog")


def test_before_its_start_and_after_its_stop_it_is_fedavg(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL)
    run_in_process(
        tmp_path / "fedcog", **SMALL, methods="fedcog(start=2, stop=2, samples=6, steps=2)"
    )
    plain, ours = lines(tmp_path / "fedavg"), lines(tmp_path / "fedcog")
    assert ours[0]["loss"] == plain[0]["loss"]
    assert ours[1]["loss"] != plain[1]["loss"]
    assert [("distillation" in line["train"]) for line in ours] == [False, True, False]


def pixel(first: float, second: float) -> Model:
    """Logits (first, second) x for a picture of one pixel x."""
    model = Model(nn.Sequential(nn.Flatten()), nn.Linear(1, 2, bias=False), 1)
    from_arrays(model, [np.array([[first], [second]], np.float32)])
    return model


def test_a_round_by_hand(tmp_path: Path) -> None:
    """One real sample x = 1 of class 0, two classes, one image z made in one step of 1/10 for class
    1, two steps of lr 1/2.

    Received: W = (1, 0), so class 1 wants z smaller, and Adam's first step is exactly -1/10. w_real
    = 1 / (2 * 1) = 1/2 = w_kd. A gradient of CE or KL is (softmax - target) x. Step 1: the student
    is still the teacher, so only the real sample moves it, both weights by a = 1/2 * 1/2 * (1 -
    s(1)), apart: W = (1 + a, -a). Step 2: the real sample b = 1/4 (1 - s(1 + 2a)); on z the student
    says s((1 + 2a) z), the teacher s(z): c = -1/4 (s((1 + 2a) z) - s(z)) z. W = (1 + a + b + c, -a
    - b - c).
    """
    local = open_round(
        pixel(1, 0),
        [],
        settings("fedcog(start=1, samples=1, steps=1, lr=0.1)", local_steps=2, batch_size=1),
        Memory(tmp_path, 1),
    )
    # float pixels are taken as they are
    local.data = LocalData(
        Resident(torch.ones(1, 1, 1, 1), torch.tensor([0])), (0.0,), (1.0,), np.array([1, 0])
    )
    local.run = make_facts(local.config, local.model, classes=2)
    terms, _ = visit(local)

    def s(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    z = float(torch.randn((), generator=torch_generator(0, "fedcog", 1, 0))) - 0.1
    a = (1 - s(1)) / 4
    b = (1 - s(1 + 2 * a)) / 4
    c = -(s((1 + 2 * a) * z) - s(z)) * z / 4
    np.testing.assert_allclose(
        to_arrays(local.model)[0].ravel(), [1 + a + b + c, -a - b - c], rtol=1e-5
    )
    assert c != pytest.approx(0, abs=1e-4)
    student, teacher = s((1 + 2 * a) * z), s(z)
    divergence = teacher * math.log(teacher / student) + (1 - teacher) * math.log(
        (1 - teacher) / (1 - student)
    )
    # mean over two steps; 0 in the first
    assert terms["distillation"] == pytest.approx(0.5 * divergence / 2, rel=1e-4)
    assert terms["task"] == pytest.approx(
        -0.5 * (math.log(s(1)) + math.log(s(1 + 2 * a))) / 2, rel=1e-5
    )
    assert local.report["fedcog.task_weight"] == 0.5
    assert local.report["fedcog.absent_classes"] == 1


def test_a_balanced_client_has_nothing_to_complement(tmp_path: Path) -> None:
    """With automatic weights, distillation has weight 0: FedAvg, bit for bit.

    With fixed weights, the labels are uniform.
    """
    run_in_process(tmp_path / "fedavg", **BALANCED)
    run_in_process(tmp_path / "auto", **BALANCED, methods=TINY)
    run_in_process(
        tmp_path / "fixed",
        **BALANCED,
        methods="fedcog(start=1, samples=20, steps=2, kd_weight='fixed')",
    )
    assert_same_bits(tmp_path / "fedavg", tmp_path / "auto")
    assert lines(tmp_path / "auto")[-1]["methods"] == {
        "fedcog.task_weight": 1.0,
        "fedcog.absent_classes": 0.0,
    }
    assert lines(tmp_path / "fixed")[-1]["methods"]["fedcog.samples"] == 20
    assert lines(tmp_path / "fixed")[-1]["train"]["distillation"] > 0


def test_a_one_class_client_counts_a_tenth(tmp_path: Path) -> None:
    run_in_process(
        tmp_path, **{**SMALL, "rounds": 2}, partition="classes(per_client=1)", methods=TINY
    )
    for client in lines(tmp_path)[-1]["clients"]:
        assert client["fedcog.task_weight"] == pytest.approx(0.1)
        assert client["fedcog.absent_classes"] == 9
        assert client["fedcog.samples"] == 6  # fewer than the nine classes that it lacks


def test_the_control_only_scales_the_real_loss(tmp_path: Path) -> None:
    """With two equal classes of ten, the weight is a fifth, in the first step bit for bit.

    Only the generated samples are missing.
    """
    one_step = {
        **SMALL,
        "dataset": "digits",
        "rounds": 1,
        "local_steps": 1,
        "partition": "classes(per_client=2, samples=40)",
    }
    run_in_process(tmp_path / "fedavg", **one_step)
    run_in_process(tmp_path / "none", **one_step, methods="fedcog(start=1, source='none')")
    plain, scaled = lines(tmp_path / "fedavg")[0]["train"], lines(tmp_path / "none")[0]["train"]
    assert scaled == {"task": pytest.approx(plain["task"] * 0.2)}


def test_partial_participation_remembers_how_old_the_partner_is(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 6}, participation=0.5, methods=TINY)
    last: dict[int, int] = {}
    ages = set()
    for line in lines(tmp_path):
        for client in line["clients"]:
            partition = client["partition"]
            assert client.get("fedcog.partner_age") == (
                line["round"] - last[partition] if partition in last else None
            )
            ages.add(client.get("fedcog.partner_age"))
            last[partition] = line["round"]
    assert len(ages) > 2


def test_the_partner_survives_a_warm_start(tmp_path: Path) -> None:
    """The 50 rounds before the start (here 2) are run once, for all methods that are compared.

    After a warm start, the clients still know their models of the last round.
    """
    methods = "fedcog(start=3, samples=6, steps=2)"
    run_in_process(tmp_path / "whole", **SMALL, methods=methods)
    run_in_process(tmp_path / "fedavg", **{**SMALL, "rounds": 2}, keep_models="all")
    run_in_process(tmp_path / "warm", **SMALL, methods=methods, warm_start=str(tmp_path / "fedavg"))
    assert lines(tmp_path / "warm")[0]["methods"]["fedcog.partner_age"] == 1
    assert_same_bits(tmp_path / "whole", tmp_path / "warm")


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
@pytest.mark.parametrize("source", ["pixels", "noise", "generator"])
def test_every_source_runs_with_everything_switched_on(
    tmp_path: Path, model: str, source: str
) -> None:
    options = (
        "batch=5, augment=True, downsample=True, regenerate=True, disagreement='code',"
        " labels='uniform', temperature=2"
    )
    options += ", lambda_bn=0.1" if model == "lenet-bn" else ""
    line = f"fedcog(start=1, samples=12, steps=4, source={source!r}, {options})"
    small = {
        **SMALL,
        "dataset": "digits(limit=60, size=16)",
        "rounds": 2,
        "clients": 2,
        "local_steps": 4,
    }
    run_in_process(tmp_path, **small, model=model, methods=line)
    last = lines(tmp_path)[-1]
    assert last["refused"] == []
    assert last["methods"]["fedcog.samples"] == 12
    assert np.isfinite(last["loss"])


@pytest.mark.parametrize("supervision", ["soft", "hard"])
def test_several_labels_a_picture(tmp_path: Path, supervision: str) -> None:
    data = {
        **SMALL,
        "dataset": "digits-multi(train=60, test=20)",
        "partition": "iid",
        "clients": 2,
        "rounds": 2,
    }
    run_in_process(tmp_path / "fedavg", **data)
    run_in_process(
        tmp_path / "fedcog",
        **data,
        methods=(
            f"fedcog(start=2, samples=12, steps=3, supervision={supervision!r},"
            " disagreement='code')"
        ),
    )
    first, last = lines(tmp_path / "fedcog")
    assert last["refused"] == []
    assert 0 < last["methods"]["fedcog.task_weight"] < 1
    assert last["train"]["distillation"] > 0
    assert first["loss"] == lines(tmp_path / "fedavg")[0]["loss"]
    assert {"O-F1", "C-F1"} <= set(last["evaluation"])


@pytest.mark.parametrize(
    "dataset", ["digits(limit=300)", "digits-multi(train=60, test=20, channels=3)"]
)
def test_pictures_of_what_was_made(tmp_path: Path, dataset: str) -> None:
    """Every client and round has a sheet by label and one by step, beside the memory.

    Nothing else changes.
    """
    some = {**SMALL, "dataset": dataset, "clients": 2, "rounds": 2, "partition": "iid"}
    line = "fedcog(start=2, samples=12, steps=10, kd_weight='fixed', labels='uniform')"
    run_in_process(tmp_path / "with", **some, methods=line, save_images=True)
    run_in_process(tmp_path / "without", **some, methods=line)
    assert_same_bits(tmp_path / "with", tmp_path / "without")
    found = sorted(
        path.relative_to(tmp_path / "with/images").as_posix()
        for path in (tmp_path / "with/images").rglob("*.png")
    )
    assert found == [
        f"round-00002/client-0000{client}-fedcog{what}.png"
        for client in range(2)
        for what in ("-steps", "")
    ]
    assert not (tmp_path / "without/images").exists()
    grid, strips = (
        Image.open(tmp_path / "with/images/round-00002" / f"client-00000-fedcog{end}.png")
        for end in ("", "-steps")
    )
    assert grid.height == 10 * 86  # ten labels, 28 pixels enlarged three times, a gap of two
    assert (strips.width - grid.width) % 86 == 0
    assert len(set(np.asarray(grid)[1:80, -80:-5].ravel().tolist())) > 50  # noise, not a blank tile


def test_a_start_that_is_too_early_or_too_late_is_said() -> None:
    early, late, fine, control = (
        configure({"methods": line, "rounds": 70}).cautions
        for line in (
            "fedcog(start=5)",
            "fedcog(start=71)",
            "fedcog",
            "fedcog(start=1, source='none')",
        )
    )
    assert len(early) == len(late) == 1
    assert "a global model of 4 rounds" in early[0]
    assert "acts from round 71 on, but rounds=70" in late[0]
    assert fine == control == []


@pytest.mark.parametrize(
    ("line", "more", "words"),
    [
        (
            "fedcog(lambda_bn=1)",
            {},
            "compares BatchNorm's statistics, but model='simple-cnn' has none",
        ),
        ("fedcog(lambda_bn=1)", {"model": "convnet(norm='group')"}, "has none"),
        ("fedcog(start=9, stop=8)", {}, "stop=8 lies before start=9"),
        ("fedcog, fedper", {}, "fedcog needs the whole model, but fedper shares only: features"),
        ("fedcog(samples=-1)", {}, "samples"),
    ],
)
def test_refusals(line: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        configure({"methods": line, **more})


@pytest.mark.parametrize("model", ["lenet-bn", "resnet10", "convnet(norm='batch')"])
def test_models_with_batch_norm_may_use_its_statistics(model: str) -> None:
    assert configure({"methods": "fedcog(lambda_bn=1)", "model": model})


def test_what_is_written_down(tmp_path: Path) -> None:
    """Seconds stand apart from the figures, because those are the same for the same seed."""
    run_in_process(tmp_path / "a", **{**SMALL, "rounds": 2}, methods=TINY)
    run_in_process(tmp_path / "b", **{**SMALL, "rounds": 2}, methods=TINY)
    one, other = (lines(tmp_path / name)[-1] for name in "ab")
    assert one["methods"] == other["methods"]
    assert set(one["methods"]) == {
        "fedcog.samples",
        "fedcog.generation_loss",
        "fedcog.task_weight",
        "fedcog.absent_classes",
        "fedcog.partner_age",
    }
    assert all(0 < client["seconds.generation"] < client["seconds"] for client in one["clients"])
    assert [weight.tobytes() for weight in weights(tmp_path / "a")] == [
        weight.tobytes() for weight in weights(tmp_path / "b")
    ]
    assert one["bytes_up"] == one["bytes_down"]
    assert read_results(tmp_path / "a/results.jsonl")[0]["methods"] == TINY
