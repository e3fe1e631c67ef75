"""`--dp`: what it accepts and refuses, the clients' half, and noise that nobody can repeat."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.common import Scalar
from scipy import stats

from fedmirage.client.dp import DpReply, Reply
from fedmirage.common.data.loading import load
from fedmirage.common.dp.bound import bound_update
from fedmirage.common.dp.noise import gaussian
from fedmirage.common.dp.settings import CentralDp, DpOn, LocalDp
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods.fedprox import FedProx
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.metrics import CLIPPED
from fedmirage.common.wire.payload import SHARED
from fedmirage.server.start import check_with_data

CENTRAL, LOCAL = "central(clip=1, noise=1)", "local(clip=1, noise=1)"
UNLIKELY = 1e-9  # nobody knows the noise, so these tests fail once in a thousand million runs


def problems(**settings: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        configure(settings)
    return "\n".join(caught.value.problems)


def cautions(**settings: Any) -> str:
    return "\n".join(configure(settings).cautions)


# The setting


def test_off_is_the_default_and_changes_nothing() -> None:
    config = configure({})
    assert not config.dp_params.active
    assert (config.weighs, config.cautions) == ("examples", [])


@pytest.mark.parametrize(("line", "kind"), [(CENTRAL, CentralDp), (LOCAL, LocalDp)])
def test_it_makes_all_clients_weigh_alike(line: str, kind: type[DpOn]) -> None:
    config = configure({"dp": line})
    assert config.dp_params == kind(clip=1, noise=1, delta=1e-5)
    assert (config.weighting, config.weighs) == ("auto", "uniform")
    assert "weighting='examples' is not used" in cautions(dp=line, weighting="examples")
    assert configure({"dp": line}).cautions == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dp": "centrl"}, ["did you mean 'central'"]),
        ({"dp": "central"}, ["needs the key 'clip'", "needs the key 'noise'"]),
        ({"dp": "central(clip=0, noise=1)"}, ["clip=0"]),
        ({"dp": "central(clip=1, noise=-1)"}, ["noise=-1"]),
        ({"dp": "central(clip=1, noise=1, delta=1)"}, ["delta=1"]),
        ({"dp": "off(clip=1)"}, ["'clip'"]),
        ({"dp": f"{CENTRAL}, {LOCAL}"}, ["holds 2 names"]),
        ({"dp": ""}, ["dp='off'"]),
        ({"dp": CENTRAL, "methods": "scaffold"}, ["scaffold sends 'control-delta'", "fedprox"]),
        ({"dp": CENTRAL, "methods": "feddyn"}, ["feddyn sends"]),
        ({"dp": LOCAL, "methods": "fednova"}, ["fednova sends"]),
        ({"dp": CENTRAL, "methods": "fedexp"}, ["fedexp sends 'squared_norm'"]),
        ({"dp": CENTRAL, "methods": "local"}, ["with local clients send nothing"]),
        ({"dp": "local(clip=1, noise=2)", "secagg": "on"}, ["reaches +-15", "on(clip=15)"]),
        ({"dp": "local(clip=1, noise=2)", "secagg": "no"}, ["secagg: no secagg is called 'no'"]),
        (
            {"dp": LOCAL, "diagnostics": True, "validation": 0.1, "local_evaluation": True},
            ["drop diagnostics", "drop validation", "drop local-evaluation"],
        ),
    ],
)
def test_refusals(settings: dict[str, Any], words: list[str]) -> None:
    message = problems(**settings)
    for word in words:
        assert word in message


def test_everything_that_is_wrong_is_said_at_once() -> None:
    message = problems(
        dp=LOCAL,
        methods="scaffold, fedavg, fedavg",
        diagnostics=True,
        patience=3,
        validation=0.1,
        clients=1,
    )
    for word in ("scaffold sends", "listed more than once", "drop diagnostics", "drop validation"):
        assert word in message


def test_central_takes_what_local_refuses() -> None:
    configure({"dp": CENTRAL, "diagnostics": True, "validation": 0.1, "local_evaluation": True})


@pytest.mark.parametrize(
    "methods", ["fedper", "lg-fedavg", "fedprox, fedavgm", "moon, dynafed", "vhl", "fedcog"]
)
def test_methods_that_send_the_model_only_are_welcome(methods: str) -> None:
    for line in (CENTRAL, LOCAL):
        configure({"dp": line, "methods": methods})


def test_cautions() -> None:
    assert "the budget is infinite" in cautions(dp="central(clip=1, noise=0)")
    assert "is not below 1/5" in cautions(dp="local(clip=1, noise=1, delta=0.2)")
    assert "keep that file secret" in cautions(dp=CENTRAL, participation=0.4)
    assert "follows from seed" not in cautions(dp=LOCAL, participation=0.4)
    assert "does not cover validation" in cautions(dp=CENTRAL, validation=0.1)
    assert "covers this run only" in cautions(dp=CENTRAL, warm_start="runs/one")


def test_statistics_of_batch_norm_are_refused_where_they_are_shared() -> None:
    digits = load("digits")
    for settings in (
        {"model": "lenet-bn"},
        {"model": "resnet10"},
        {"model": "lenet-bn", "methods": "fedper"},
    ):
        with pytest.raises(ConfigurationError, match=r"running_mean.*without batch norm"):
            check_with_data(configure({"dp": CENTRAL, **settings}), digits)
        check_with_data(configure(settings), digits)
    check_with_data(configure({"dp": CENTRAL, "model": 'resnet10(norm="group")'}), digits)
    check_with_data(configure({"dp": CENTRAL, "model": "lenet-bn", "methods": "lg-fedavg"}), digits)


def test_a_method_that_reads_single_replies_is_refused_under_central_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would learn from updates without noise; under local noise each reply is covered."""
    monkeypatch.setattr(FedProx, "needs_each_client", "model")
    assert "fedprox reads each client's model" in problems(dp=CENTRAL, methods="fedprox(mu=1)")
    configure({"dp": LOCAL, "methods": "fedprox(mu=1)"})


# The client's half


def test_clipping_against_brute_force() -> None:
    generator = np.random.default_rng(0)
    shapes = [(3, 4), (5,), (), (2, 1, 2)]
    start = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
    model = [array + generator.normal(size=array.shape).astype(np.float32) for array in start]
    model = [np.asarray(array, np.float32) for array in model]
    delta = np.concatenate(
        [(a.astype(float) - b.astype(float)).ravel() for a, b in zip(model, start, strict=True)]
    )
    for clip in (0.01, 1.0, 100.0):
        sent, clipped = bound_update(model, start, clip, 0.0)
        found = np.concatenate(
            [(a.astype(float) - b.astype(float)).ravel() for a, b in zip(sent, start, strict=True)]
        )
        np.testing.assert_allclose(found, delta * min(1, clip / np.linalg.norm(delta)), atol=3e-7)
        assert np.linalg.norm(found) <= clip * (1 + 1e-4)
        assert clipped == (np.linalg.norm(delta) > clip)
        assert [(array.shape, array.dtype) for array in sent] == [
            (shape, np.float32) for shape in shapes
        ]


def test_what_is_neither_clipped_nor_noised_stays_as_it_is() -> None:
    """1 + (1e-9 - 1) is not 1e-9 in floats; a client that did not move has no length to divide
    by."""
    model, start = [np.array([1e-9, 0.1], np.float32)], [np.array([1, 1e8], np.float32)]
    sent, clipped = bound_update(model, start, 1e12, 0.0)
    assert (sent[0].tobytes(), clipped) == (model[0].tobytes(), False)
    sent, clipped = bound_update(start, start, 1e-12, 0.0)
    assert (sent[0].tobytes(), clipped) == (start[0].tobytes(), False)


def test_local_noise_has_its_deviation_round_the_clipped_update() -> None:
    """300,000 numbers: the deviation of noise * clip = 1.5 is met to 1 %."""
    start, model = [np.zeros(300_000, np.float32)], [np.full(300_000, 7, np.float32)]
    (sent,), clipped = bound_update(model, start, 0.5, 3.0)
    assert clipped
    noise = sent.astype(float) - 0.5 / np.sqrt(300_000)
    assert noise.std() == pytest.approx(1.5, rel=0.01)
    assert stats.kstest(noise / 1.5, "norm").pvalue > UNLIKELY


def protect(folder: Path, dp: DpOn, examples: int, metrics: dict[str, Scalar]) -> Reply:
    """What a client may send that went from the weights (1, 1) to (4, 5)."""
    trained = Reply({SHARED: [np.array([[4, 5]], np.float32)]}, examples, metrics)
    release = DpReply(dp, folder, folder / "releases.jsonl", "token", 1)
    return release.protect(trained, [np.array([[1, 1]], np.float32)])


def test_a_client_of_two_weights_by_hand(tmp_path: Path) -> None:
    """From (1, 1) to (4, 5): an update of (3, 4), of length 5; scaled to 2 it is (1.2, 1.6)."""
    sent = protect(tmp_path, CentralDp(clip=2, noise=9), 30, {"steps": 3})
    np.testing.assert_allclose(sent.sections[SHARED][0], [[2.2, 2.6]], rtol=1e-6)
    assert (sent.examples, sent.metrics) == (30, {"steps": 3, CLIPPED: 1})
    sent = protect(tmp_path, CentralDp(clip=6, noise=9), 30, {})
    assert (sent.sections[SHARED][0].tolist(), sent.metrics) == ([[4, 5]], {CLIPPED: 0})


def test_local_tells_nothing_but_the_update(tmp_path: Path) -> None:
    for examples, told in ((30, 1), (0, 0)):
        metrics: dict[str, Scalar] = {"term.task": 0.5, "seconds": 2}
        sent = protect(tmp_path, LocalDp(clip=2, noise=1), examples, metrics)
        assert (sent.examples, sent.metrics) == (told, {})
        assert not np.allclose(sent.sections[SHARED][0], [[2.2, 2.6]], atol=1e-6)


# The noise


def test_the_noise_is_normal_and_independent() -> None:
    sample = gaussian((400_001,), 1.0)
    assert stats.kstest(sample, "norm").pvalue > UNLIKELY
    assert abs(sample.mean()) < 6 / 400_001**0.5
    assert gaussian((400_000,), 2.5).std() == pytest.approx(2.5, rel=0.01)
    for lag in (1, 200_000, 200_001):  # neighbours, and the two halves of Box and Muller's pairs
        assert abs(np.corrcoef(sample[lag:], sample[:-lag])[0, 1]) < 6 / 200_000**0.5


def test_no_seed_repeats_it() -> None:
    first = []
    for _ in range(2):
        np.random.seed(0)
        torch.manual_seed(0)
        first.append(gaussian((8,), 1.0).tolist())
    assert not set(first[0]) & set(first[1])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    assert gaussian(shape, 1.0).shape == shape
