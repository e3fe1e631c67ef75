"""VHL: the limit, steps by hand, gradients, which clients get the set, variants, refusals."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedmirage.client.data import LocalData
from fedmirage.client.methods.vhl import VhlClient
from fedmirage.client.objective import LocalRound
from fedmirage.client.train import train
from fedmirage.common.data.batches import Resident
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.task import TASKS
from fedmirage.common.memory import Memory
from fedmirage.common.methods.vhl import VIRTUAL, Vhl
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.handout import digest
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.facts import make_facts
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import KilledError, assert_same_bits, kill_in_round, lines, weights
from tests.support.vhl import BASE

TINY = "vhl(generator='gaussian', per_class=2, batch=4)"
OFF = {"virtual_weight": 0.0, "alignment_weight": 0.0, "contrast_weight": 0.0}


def vhl(**more: Any) -> str:
    return (
        "vhl(generator='gaussian', per_class=2,"
        f" batch=4{''.join(f', {key}={value!r}' for key, value in more.items())})"
    )


def test_without_weights_it_is_fedavg_with_the_wider_head_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedAvg's declaration, changed to widen the head, has no halves: only the head differs."""
    from fedmirage.common.methods.fedavg import FedAvg

    run_in_process(tmp_path / "vhl", **BASE, methods=vhl(**OFF))
    monkeypatch.setattr(FedAvg, "extra_outputs", lambda self, classes: classes)
    run_in_process(tmp_path / "fedavg", **BASE)
    assert_same_bits(tmp_path / "vhl", tmp_path / "fedavg")
    first, second = (lines(tmp_path / name)[-1] for name in ("vhl", "fedavg"))
    assert first["bytes_down"] == second["bytes_down"]
    assert (
        first["evaluation"]["accuracy_all_outputs"]
        == second["evaluation"]["accuracy_all_outputs"]
        <= first["accuracy"]
        == second["accuracy"]
    )


@pytest.mark.parametrize("weights_of", [OFF, {"variant": "naive", "virtual_weight": 0.0}])
def test_without_weights_and_with_shared_outputs_it_is_fedavg_bit_for_bit(
    tmp_path: Path, weights_of: dict[str, Any]
) -> None:
    run_in_process(tmp_path / "vhl", **BASE, methods=vhl(outputs="shared", **weights_of))
    run_in_process(tmp_path / "fedavg", **BASE)
    assert_same_bits(tmp_path / "vhl", tmp_path / "fedavg")
    first, second = (lines(tmp_path / name)[-1] for name in ("vhl", "fedavg"))
    assert first["bytes_down"] == second["bytes_down"]
    assert first["evaluation"] == second["evaluation"]


def linear(features: int, weights: np.ndarray, outputs: np.ndarray) -> Model:
    """One pixel to `features` features by `weights`, then logits by `outputs`; no biases."""
    model = Model(
        nn.Sequential(nn.Flatten(), nn.Linear(1, features, bias=False)),
        nn.Linear(features, len(outputs), bias=False),
        features,
    )
    from_arrays(
        model, [weights.astype(np.float32).reshape(features, 1), outputs.astype(np.float32)]
    )
    return model


def one_round(
    model: Model,
    folder: Path,
    methods: str,
    images: list[int],
    labels: list[int],
    virtual: list[np.ndarray],
    mean: float = 0.0,
    std: float = 1.0,
    **settings: Any,
) -> tuple[dict[str, float], VhlClient, LocalRound]:
    """A client's round on images of one byte each, of two classes, with the virtual set that the
    server would have sent."""
    config = configure(
        {
            "methods": methods,
            "batch_size": 64,
            "local_steps": 1,
            "lr": 1.0,
            "momentum": 0.0,
            **settings,
        }
    )
    pixels = torch.tensor(images, dtype=torch.uint8).view(-1, 1, 1, 1)
    data = LocalData(
        Resident(pixels, torch.tensor(labels)), (mean,), (std,), np.bincount(labels, minlength=2)
    )
    received = {VIRTUAL: [digest(virtual), *virtual]}
    local = LocalRound(
        number=1,
        partition=0,
        run=make_facts(config, model),
        model=model,
        data=data,
        received=received,
        memory=Memory(folder, 1),
        lr=config.lr,
    )
    half = VhlClient(config.method_list[0])  # type: ignore[arg-type]
    half.begin(local)
    terms = train(local, [half])
    half.end(local)
    return terms, half, local


def virtual_set(values: list[int], labels: list[int]) -> list[np.ndarray]:
    return [np.array(values, np.uint8).reshape(-1, 1, 1, 1), np.array(labels, np.int16)]


def test_a_step_by_hand(tmp_path: Path) -> None:
    """One real sample x = 1 of class 0, virtual ones 1 and -1 of classes 0 and 1 (white and black),
    z = (x, 0), T = 1, logits 0.

    Both cross-entropies are log 4, over the four outputs. Of the three rows u = (1, 0), (1, 0),
    (-1, 0), the first two are each other's only partner: each gives -log(e / (e + e^-1)); the third
    has none and gives 0, and so S = 2/3 log(1 + e^-2). The two virtual rows have different labels,
    so that b's contrast is 0. The head's gradient is a mean of (1/4 - [its label]) z: of the real
    sample (-3/4, 1/4, 1/4, 1/4), of the virtual ones, whose labels are shifted by 2, half of (1/4,
    1/4, -3/4, 1/4) and of -(1/4, 1/4, 1/4, -3/4), together (0, 0, -1/2, 1/2).
    """
    model = linear(2, np.array([1.0, 0.0]), np.zeros((4, 2)))
    settings = "vhl(normalise='real', augment='none', temperature=1, contrast_weight=1)"
    virtual = virtual_set([255, 0], [0, 1])
    terms, half, _ = one_round(model, tmp_path, settings, [255], [0], virtual, mean=0.5, std=0.5)
    assert terms["task"] == pytest.approx(math.log(4))
    assert terms["virtual"] == pytest.approx(math.log(4))
    assert terms["alignment"] == pytest.approx(2 / 3 * math.log(1 + math.exp(-2)), rel=1e-5)
    assert terms["virtual_contrast"] == pytest.approx(0)
    moved = -np.array([-3 / 4, 1 / 4, 1 / 4 - 1 / 2, 1 / 4 + 1 / 2])
    np.testing.assert_allclose(to_arrays(model)[1][:, 0], moved, atol=1e-6)
    assert half.classified == 2


def test_a_step_by_hand_with_shared_outputs(tmp_path: Path) -> None:
    """The samples of the step above, with two outputs instead of four: virtual labels stay 0 and 1.

    Both cross-entropies are log 2. The head's gradient is a mean of (1/2 - [its label]) z: of the
    real sample (-1/2, 1/2); of the virtual ones half of (-1/2, 1/2) and of -(1/2, -1/2), together
    (-1/2, 1/2). The contrasts know no outputs and are as above.
    """
    model = linear(2, np.array([1.0, 0.0]), np.zeros((2, 2)))
    settings = (
        "vhl(outputs='shared', normalise='real', augment='none', temperature=1, contrast_weight=1)"
    )
    virtual = virtual_set([255, 0], [0, 1])
    terms, half, _ = one_round(model, tmp_path, settings, [255], [0], virtual, mean=0.5, std=0.5)
    assert terms["task"] == pytest.approx(math.log(2))
    assert terms["virtual"] == pytest.approx(math.log(2))
    assert terms["alignment"] == pytest.approx(2 / 3 * math.log(1 + math.exp(-2)), rel=1e-5)
    assert terms["virtual_contrast"] == pytest.approx(0)
    np.testing.assert_allclose(to_arrays(model)[1][:, 0], [1.0, -1.0], atol=1e-6)
    assert (half.classified, float(half.right)) == (2, 1.0)  # of equal logits the first counts


def test_rows_that_are_not_paired_attract_only_their_own_kind(tmp_path: Path) -> None:
    """The real sample has no positive any more, and neither has either virtual one: nothing is left
    of the alignment. Beside two virtual samples of class 0, which are each other's positives, the
    code's labels are (0, -2, -2), and ours are too: with cosines 1 to all, each of the two gives
    log 2, and the mean over three rows is 2/3 log 2."""
    settings = "vhl(outputs='shared', paired=False, normalise='real', augment='none', temperature=1"
    for virtual, expected in (([0, 1], 0.0), ([0, 0], 2 / 3 * math.log(2))):
        model = linear(2, np.array([1.0, 0.0]), np.zeros((2, 2)))
        shown = virtual_set([255, 255], virtual)
        terms, _, _ = one_round(
            model, tmp_path / str(virtual), f"{settings})", [255], [0], shown, mean=0.5, std=0.5
        )
        assert terms["alignment"] == pytest.approx(expected, abs=1e-6)


def test_shared_outputs_leave_the_head_and_judge_virtual_samples_by_it(tmp_path: Path) -> None:
    """If the virtual set is the real one, a model that learns the digits also knows the virtual
    set, over the ten real outputs."""
    many = {**BASE, "dataset": "digits(limit=400, size=8)", "local_steps": 40, "rounds": 3}
    lent = "vhl(generator='dataset', dataset='digits(size=8)', per_class=10, batch=10"
    run_in_process(
        tmp_path, **many, methods=f"{lent}, outputs='shared', normalise='real', augment='none')"
    )
    line = lines(tmp_path)[-1]
    assert len(weights(tmp_path)[-1]) == 10
    assert "accuracy_all_outputs" not in line["evaluation"]
    assert line["evaluation"]["virtual_accuracy"] > 0.8
    assert line["methods"]["vhl.virtual_train_accuracy"] > 0.6


def test_alignment_leaves_virtual_features_alone() -> None:
    """The third term moves only real features: the gradient of virtual ones is exactly zero."""
    from fedmirage.client.objective import Step

    half = VhlClient(Vhl(virtual_weight=0, contrast_weight=0))
    step = Step.__new__(Step)
    step.local = type("Local", (), {"classes": 2, "task": TASKS["single-label"]})()  # type: ignore[assignment]
    step.number, step.labels = 0, torch.tensor([0, 1, 0])
    step.features = torch.randn(3, 4, requires_grad=True)
    virtual = torch.randn(4, 4, requires_grad=True)
    step.extra_features, step.extra_logits = {"vhl": virtual}, {"vhl": torch.zeros(4, 4)}
    half.data, half.epoch, half.labels = object(), 1, torch.tensor([0, 1, 0, 1])  # type: ignore[assignment]
    terms = half.terms(step)
    assert set(terms) == {"alignment"}
    (terms["alignment"] + 0 * virtual.sum()).backward()
    assert step.features.grad is not None
    assert step.features.grad.abs().min() > 0
    assert virtual.grad is not None
    assert not virtual.grad.any()


def test_alignment_and_contrast_end_with_the_epochs_of_the_alignment(tmp_path: Path) -> None:
    """Two samples in batches of one are two steps per epoch: with align_epochs=1, two of four steps
    have both terms, and so half the mean. The virtual cross-entropy goes on."""
    found = {}
    for epochs in (0, 1, 2):
        model = linear(2, np.array([1.0, 0.5]), np.zeros((4, 2)))
        methods = f"vhl(align_epochs={epochs}, normalise='real', augment='none', batch=4)"
        virtual = virtual_set([255, 128, 60, 9], [0, 1, 0, 1])
        settings = {"batch_size": 1, "local_steps": 4, "lr": 1e-9}
        terms, *_ = one_round(
            model, tmp_path / str(epochs), methods, [255, 100], [0, 1], virtual, **settings
        )
        found[epochs] = terms
    assert set(found[0]) == {"task", "virtual"}
    for name in ("alignment", "virtual_contrast"):
        assert found[2][name] > 0
        assert found[1][name] == pytest.approx(found[2][name] / 2, rel=1e-4)
    assert found[0]["virtual"] == pytest.approx(found[2]["virtual"], rel=1e-4)


def test_features_that_are_all_zero_and_classes_that_are_missing(tmp_path: Path) -> None:
    """A dead extractor gives zero rows, and the client has one of two classes: everything stays
    finite, no step is left out."""
    model = linear(2, np.zeros(2), np.zeros((4, 2)))
    _, half, local = one_round(
        model,
        tmp_path,
        "vhl(augment='none')",
        [255, 3],
        [0, 0],
        virtual_set([255, 0, 9], [0, 1, 1]),
    )
    assert all(np.isfinite(array).all() for array in to_arrays(model))
    assert local.steps == 1
    assert half.skipped == 0


def test_a_step_without_a_finite_loss_is_left_out_and_counted(tmp_path: Path) -> None:
    model = linear(2, np.array([1e30, 1e30]), np.full((4, 2), 1e30))
    before = to_arrays(model)
    _, half, _ = one_round(
        model, tmp_path, "vhl(augment='none')", [255], [0], virtual_set([255, 0], [0, 1])
    )
    assert half.skipped == 1
    assert all(np.array_equal(a, b) for a, b in zip(before, to_arrays(model), strict=True))


def test_a_batch_of_one_trains_where_batch_norm_has_company(tmp_path: Path) -> None:
    one = {
        **BASE,
        "model": "convnet(width=2, depth=1, norm='batch')",
        "partition": "classes(per_client=1, samples=1)",
        "rounds": 1,
    }
    for methods, steps in (("fedavg", 0), (TINY, 3)):
        run_in_process(tmp_path / methods[:3], **one, methods=methods)
        assert [client["steps"] for client in lines(tmp_path / methods[:3])[0]["clients"]] == [
            steps,
            steps,
        ]


def test_the_set_is_sent_once(tmp_path: Path) -> None:
    """Two sections' worth of bytes in round 1: images, labels and their headers; then 32 bytes of
    digest and its header."""
    run_in_process(tmp_path, **{**BASE, "rounds": 3}, methods=TINY)
    first, second, third = lines(tmp_path)
    images = 10 * 2 * 8 * 8
    assert first["bytes_down"] - second["bytes_down"] == 2 * (images + 128 + 10 * 2 * 2 + 128)
    assert second["bytes_down"] == third["bytes_down"]
    assert second["bytes_up"] == first["bytes_up"]
    assert "virtual_accuracy" in first["evaluation"]


def test_the_set_is_sent_once_under_secure_aggregation(tmp_path: Path) -> None:
    """The strategy sees one reply, which stands for all clients that answered."""
    secure = {**BASE, "clients": 3, "rounds": 3, "secagg": "on"}
    run_in_process(tmp_path, **secure, methods=TINY)
    first, second, third = (line["bytes_down"] for line in lines(tmp_path))
    images = 3 * 10 * 2 * 8 * 8
    assert first - second > images
    assert abs(second - third) < images / 10  # keys and shares are not always of one length


def test_a_resumed_run_does_not_send_the_set_again(tmp_path: Path) -> None:
    settings = {**BASE, "rounds": 4, "methods": TINY}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    whole, cut = (
        [line["bytes_down"] for line in lines(tmp_path / name)] for name in ("whole", "cut")
    )
    assert whole == cut


def test_who_lost_the_set_gets_it_again(tmp_path: Path) -> None:
    """Client 1 loses its disk after round 2.

    Round 3 goes on without it and records the reason that it gives; in round 4 it is back.
    """
    import shutil

    def lose(node: int, reply: Any) -> Any:
        memory = next((tmp_path / "memory").glob("*/client-00001"), None)
        done = memory is not None and (memory / "round-00002.safetensors").exists()
        if node == node_id(1) and done and not (tmp_path / "lost").exists():
            shutil.rmtree(memory)
            (tmp_path / "lost").touch()
        return reply

    settings = {**BASE, "rounds": 4, "keep_models": "all"}  # so that every round leaves a file
    run_in_process(tmp_path, lose, **settings, methods=TINY)
    found = lines(tmp_path)
    assert [len(line["clients"]) for line in found] == [2, 2, 1, 2]
    assert "does not hold the virtual set" in found[2]["refused"][0]["reason"]
    assert found[0]["bytes_down"] > found[3]["bytes_down"] > found[2]["bytes_down"]


def test_a_seed_gives_the_same_run_for_fewer_bytes(tmp_path: Path) -> None:
    run_in_process(tmp_path / "images", **BASE, methods=TINY)
    run_in_process(tmp_path / "seed", **BASE, methods=vhl(send="seed"))
    assert_same_bits(tmp_path / "images", tmp_path / "seed")
    images, seed = (lines(tmp_path / name)[0]["bytes_down"] for name in ("images", "seed"))
    assert images - seed > 2 * 10 * 2 * 8 * 8


def test_a_seed_that_gives_another_set_is_noticed_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both clients make a different set: the round is retried, now with the images."""
    import fedmirage.client.methods.vhl as half

    right = half.virtual_images
    monkeypatch.setattr(
        half, "virtual_images", lambda *given: [right(*given)[0] + 1, right(*given)[1]]
    )
    run_in_process(tmp_path, **BASE, methods=vhl(send="seed"))
    assert "SHA-256 differs" in lines(tmp_path, "retry")[0]["reason"]
    assert [len(line["clients"]) for line in lines(tmp_path)] == [2, 2]


def test_a_warm_start_sends_the_set_anew(tmp_path: Path) -> None:
    run_in_process(tmp_path / "start", **{**BASE, "rounds": 1}, methods=TINY)
    run_in_process(tmp_path / "more", **BASE, methods=TINY, warm_start=str(tmp_path / "start"))
    assert lines(tmp_path / "more")[0]["bytes_down"] == lines(tmp_path / "start")[0]["bytes_down"]


@pytest.mark.parametrize("variant", ["naive", "vfa", "vftl"])
def test_variants_have_their_terms_and_outputs(tmp_path: Path, variant: str) -> None:
    run_in_process(tmp_path, **BASE, methods=vhl(variant=variant))
    line = lines(tmp_path)[-1]
    terms = {"naive": {"task", "virtual"}, "vfa": {"task", "alignment"}, "vftl": {"task"}}
    assert set(line["train"]) == terms[variant]
    assert len(weights(tmp_path)[-1]) == (20 if variant == "naive" else 10)
    assert ("vhl.pretrained_accuracy" in line.get("methods", {})) == (variant == "vftl")


def test_virtual_transfer_trains_the_body_and_keeps_the_head(tmp_path: Path) -> None:
    """Without a pass it is FedAvg; with one, clients start from another body and the same head."""
    run_in_process(tmp_path / "fedavg", **BASE)
    run_in_process(tmp_path / "none", **BASE, methods=vhl(variant="vftl", pretrain_epochs=0))
    run_in_process(tmp_path / "some", **{**BASE, "lr": 1e-12}, methods=vhl(variant="vftl"))
    assert_same_bits(tmp_path / "fedavg", tmp_path / "none")
    first = to_arrays(build_initial())
    np.testing.assert_allclose(weights(tmp_path / "some")[-1], first[-1], atol=1e-6)


def build_initial() -> Model:
    from fedmirage.common.seeds import derive

    return build(BASE["model"], (1, 8, 8), 10, 0, derive(0, "model"))


@pytest.mark.parametrize("host", ["fedprox(mu=0.1)", "scaffold", "fednova", "moon"])
def test_on_top_of_the_papers_hosts(tmp_path: Path, host: str) -> None:
    """Either order; features of a stage, in colour, with a model that has stages and batch norm."""
    colour = {
        **BASE,
        "dataset": "digits(limit=60, size=8, channels=3)",
        "model": "convnet(width=2, depth=1, norm='batch')",
    }
    for number, methods in enumerate(
        (f"{host}, {vhl(feature='stage1')}", f"{vhl(feature='stage1')}, {host}")
    ):
        run_in_process(tmp_path / str(number), **{**colour, "rounds": 1}, methods=methods)
        assert {"virtual", "alignment", "virtual_contrast"} <= set(
            lines(tmp_path / str(number))[0]["train"]
        )


def test_pictures_and_distances(tmp_path: Path) -> None:
    run_in_process(
        tmp_path, **{**BASE, "rounds": 1}, methods=TINY, save_images=True, diagnostics=True
    )
    line = lines(tmp_path)[0]
    assert 0 < line["methods"]["vhl.feature_distance"] < 2
    assert 0 < line["evaluation"]["feature_distance"] < 2
    assert (tmp_path / "images" / "virtual.png").stat().st_size > 0
    assert (
        len(read_checkpoint(tmp_path / "checkpoint.safetensors").strategy["vhl.virtual"][1]) == 20
    )


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        (
            "vhl(variant='naive', alignment_weight=1.0)",
            "variant='naive' has no alignment_weight; leave them out",
        ),
        ("vhl(variant='vfa', outputs='shared')", "variant='vfa' classifies no virtual samples"),
        ("vhl(variant='vftl', outputs='shared')", "leave outputs='shared' out"),
        ("vhl(outputs='both')", "outputs='both'"),
        ("vhl(generator='dataset')", "generator='dataset' and dataset='...' belong together"),
        ("vhl(variant='vfa', virtual_classes=12)", "one mean per real class"),
        ("vhl(feature='deep')", "feature"),
    ],
)
def test_refusals(methods: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure({"methods": methods})


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("vhl(virtual_classes=5)", "the data have 10 classes, and each needs a partner"),
        (
            "vhl(outputs='shared', virtual_classes=12)",
            "the data have 10 classes, and each output is shared by one real and one virtual class",
        ),
        (
            "vhl(outputs='shared', virtual_classes=5, alignment_weight=0)",
            "leave virtual_classes out, or write outputs='own'",
        ),
        ("vhl(feature='stage7')", "this model has last; write one of these"),
    ],
)
def test_refusals_once_the_data_are_known(tmp_path: Path, methods: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        run_in_process(tmp_path, **BASE, methods=methods)


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("vhl", "a virtual sample is paired with the real ones of its one class"),
        ("dynafed", "a synthetic image has one distribution over all classes"),
    ],
)
def test_several_labels_a_sample_are_refused_with_the_method_s_own_reason(
    methods: str, reason: str
) -> None:
    from types import SimpleNamespace

    from fedmirage.common.run import task_of

    wanted = f"methods: {methods} is not defined for multi-label tasks such as flair: {reason}"
    with pytest.raises(ConfigurationError, match=wanted):
        task_of(configure({"methods": methods}), SimpleNamespace(task="multi-label", name="flair"))  # type: ignore[arg-type]


def test_more_virtual_classes_than_real_ones(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**BASE, "rounds": 1}, methods=vhl(virtual_classes=12))
    assert len(weights(tmp_path)[-1]) == 22


def test_as_many_virtual_classes_as_real_ones_may_share_outputs(tmp_path: Path) -> None:
    shared = vhl(outputs="shared", virtual_classes=10)
    run_in_process(tmp_path, **{**BASE, "rounds": 1}, methods=shared)
    assert len(weights(tmp_path)[-1]) == 10


def test_every_renamed_key_has_its_new_name() -> None:
    assert set(Vhl.renamed.values()) <= set(Vhl.model_fields)
    assert not set(Vhl.renamed) & set(Vhl.model_fields)
