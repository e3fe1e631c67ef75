"""SWA: FedAvg where one model is averaged, rounds by hand, what is scored and saved, resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.server.strategy import FedAvg

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods.swa import Swa
from fedmirage.common.settings.config import configure
from fedmirage.server.methods.swa import SwaServer
from tests.support.inprocess import run_in_process
from tests.support.released import released_after, saved
from tests.support.rules import buffers, named, one_round, reply, rule
from tests.support.runs import SMALL, KilledError, assert_same_bits, kill_in_round, lines, weights
from tests.support.strategies import Client


@pytest.mark.parametrize("methods", ["swa(length=1)", "swa(start=9)", "ema(decay=0)"])
@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_an_average_of_one_model_is_fedavg_bit_for_bit(
    tmp_path: Path, model: str, methods: str
) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, model=model)
    run_in_process(tmp_path / "one", **SMALL, model=model, methods=methods)
    one, other = saved(tmp_path / "fedavg"), saved(tmp_path / "one")
    assert one
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in other.items()
    }
    accuracies = [
        [line["accuracy"] for line in lines(tmp_path / name)] for name in ("fedavg", "one")
    ]
    assert accuracies[0] == accuracies[1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("swa(length=2)", [5.0, 3.0]),
        ("swa(length=3)", [4.0, 3.0]),
        ("swa(length=5)", [3.25, 2.5]),
        ("swa(length=None)", [3.25, 2.5]),
        ("swa(length=None, start=2)", [4.0, 3.0]),
        ("swa(length=5, start=3)", [5.0, 3.0]),
        ("swa(start=4)", [4.0, 4.0]),
    ],
)
def test_four_rounds_by_hand(line: str, expected: list[float]) -> None:
    """The global models are [1, 1], [2, 3], [6, 2] and [4, 4].

    The mean of the last two is [5, 3], of the last three [12, 9] / 3, of all [13, 10] / 4.
    """
    assert released_after(rule(line, 2), [1, 1], [2, 3], [6, 2], [4, 4]) == expected


def test_a_round_in_which_nobody_trained_enters_nothing() -> None:
    strategy = rule("swa", 1)
    one_round(strategy, [[0]], reply([2]))
    assert strategy.aggregate_fit(2, [(Client(0), reply([9], examples=0))], []) == (None, {})
    assert strategy.state.entered == 1


def test_it_wraps_flowers_own_strategy() -> None:
    strategy = SwaServer(FedAvg(min_fit_clients=1, min_available_clients=1), Swa(length=2))
    assert released_after(strategy, [1, 1], [3, 5]) == [2, 3]


def test_clients_go_on_without_the_average_which_is_scored_and_saved(tmp_path: Path) -> None:
    more = {**SMALL, "validation": 0.2, "keep_models": "all"}
    run_in_process(tmp_path / "fedavg", **more)
    config = run_in_process(tmp_path / "swa", **more, methods="swa(length=2)")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "swa")  # the checkpoints
    models = [
        saved(tmp_path / "fedavg", f"models/round-0000{number}.safetensors") for number in (2, 3)
    ]
    kept = saved(tmp_path / "swa", "models/round-00003.safetensors")
    mean = saved(tmp_path / "swa")
    for name in named(config):
        assert kept[name].tobytes() == models[1][name].tobytes()
        np.testing.assert_allclose(mean[name], (models[0][name] + models[1][name]) / 2, atol=1e-7)
    plain, averaged = lines(tmp_path / "fedavg")[-1], lines(tmp_path / "swa")[-1]
    assert averaged["evaluation"]["swa.last.loss"] == plain["loss"] != averaged["loss"]
    assert averaged["evaluation"]["swa.last.accuracy"] == plain["accuracy"]
    assert averaged["methods"]["swa.models"] == 3
    assert averaged["validation"]["loss"] != plain["validation"]["loss"]


def test_running_statistics_are_averaged_like_the_weights(tmp_path: Path) -> None:
    settings = {**SMALL, "model": "lenet-bn", "keep_models": "all", "methods": "swa(length=2)"}
    config = run_in_process(tmp_path, **settings)
    models = [saved(tmp_path, f"models/round-0000{number}.safetensors") for number in (2, 3)]
    names = [named(config)[position] for position in buffers(config)]
    assert names
    for name in names:
        mean = (models[0][name].astype(float) + models[1][name]) / 2
        np.testing.assert_allclose(saved(tmp_path)[name], mean, rtol=1e-6)
        assert saved(tmp_path)[name].tobytes() != models[1][name].tobytes()


@pytest.mark.parametrize(
    "methods", ["swa(length=2)", "swa(length=None)", "fedavgm, ema(decay=0.5)"]
)
def test_a_resumed_run_releases_the_same_bits(tmp_path: Path, methods: str) -> None:
    settings = {**SMALL, "rounds": 4, "participation": 0.75, "methods": methods}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    whole, cut = saved(tmp_path / "whole"), saved(tmp_path / "cut")
    assert all(whole[name].tobytes() == cut[name].tobytes() for name in whole)
    assert any(
        whole[name].tobytes() != shared.tobytes()
        for name, shared in zip(whole, weights(tmp_path / "whole"), strict=True)
    )


@pytest.mark.parametrize(
    "privacy",
    [{"secagg": "on"}, {"dp": "local(clip=1, noise=0.1)"}, {"dp": "central(clip=1, noise=0.1)"}],
)
def test_it_works_on_sums_and_on_noised_models(tmp_path: Path, privacy: dict[str, Any]) -> None:
    run_in_process(tmp_path, **SMALL, **privacy, methods="swa", keep_models="all")
    models = [saved(tmp_path, f"models/round-0000{number}.safetensors") for number in (1, 2, 3)]
    for name, found in saved(tmp_path).items():
        np.testing.assert_allclose(found, sum(model[name] for model in models) / 3, atol=1e-6)


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ("swa, fedavgm", "before swa chooses the model that is scored; write fedavgm left of swa"),
        ("swa, dynafed", "write dynafed left of swa"),
        ("swa, ema", "swa and ema each choose the model that is scored; keep one"),
        ("fedper, swa", "swa needs the whole model, but fedper shares only: features"),
        ("swa(length=0)", "length=0"),
    ],
)
def test_refusals(methods: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure({"methods": methods})


def test_too_few_rounds_are_said_before_and_after(tmp_path: Path) -> None:
    config = run_in_process(tmp_path, **SMALL, methods="swa(start=3)")
    (caution,) = config.cautions
    assert "swa acts from round 4 on, but rounds=3" in caution
    assert lines(tmp_path, "summary")[0]["idle"]["swa"] == "it had 1 global models to average"
