"""--diagnostics against brute force, and the rounds to a target."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedmirage.client.build import deal_data
from fedmirage.client.diagnostics import OwnLabels
from fedmirage.common.data.batches import normalise
from fedmirage.common.data.loading import load
from fedmirage.common.data.view import view
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.run import make_run
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.manifest import Manifest, from_arrays
from tests.support.inprocess import run_in_process
from tests.support.rules import initial, last_local_models
from tests.support.runs import (
    SMALL,
    KilledError,
    assert_same_bits,
    kill_in_round,
    lines,
    weights,
    without_times,
)

ONE = {**SMALL, "rounds": 1, "diagnostics": True, "keep_models": "all"}


def flat(model: list[np.ndarray], keep: list[bool]) -> np.ndarray:
    return np.concatenate(
        [array.ravel() for array, kept in zip(model, keep, strict=True) if kept]
    ).astype(np.float64)


def trainable(module: torch.nn.Module) -> list[bool]:
    return [entry.trainable for entry in Manifest.of(module)]


def model(config: RunConfig) -> torch.nn.Module:
    dataset = load(config.dataset)
    return make_run(config, dataset, torch.device("cpu"))[1]


@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_drift_is_the_mean_distance_to_the_average(tmp_path: Path, weighting: str) -> None:
    """Over trainable weights, weighed as the average is; the model of the run has running
    statistics, which do not count."""
    config = run_in_process(tmp_path, **ONE, model="lenet-bn", weighting=weighting)
    models, shares = last_local_models(tmp_path)
    if weighting == "uniform":
        shares = [1 / len(models)] * len(models)
    keep = trainable(model(config))
    assert not all(keep)
    average = flat(weights(tmp_path), keep)
    expected = sum(
        p * float(np.linalg.norm(flat(one, keep) - average))
        for p, one in zip(shares, models, strict=True)
    )
    assert lines(tmp_path)[0]["diagnostics"]["drift"] == pytest.approx(expected, rel=1e-6)


def test_drift_under_a_server_rule_is_about_the_average_not_the_step(tmp_path: Path) -> None:
    """FedAvgM's lr of 0.5 moves the model half way; the clients' distances to their average are
    what they were."""
    for name, methods in (("plain", "fedavg"), ("rule", "fedavgm(lr=0.5)")):
        run_in_process(tmp_path / name, **ONE, methods=methods)
    one, other = (lines(tmp_path / name)[0]["diagnostics"] for name in ("plain", "rule"))
    assert one == other


def test_drift_with_fednova_is_that_of_the_normalised_models(tmp_path: Path) -> None:
    """w + (sum_j p_j a_j) (w_i - w) / a_i is what FedNova averages."""
    settings = {**ONE, "partition": "dirichlet(alpha=0.3)", "momentum": 0.0, "methods": "fednova"}
    del settings["local_steps"]
    config = run_in_process(tmp_path, **settings, local_epochs=2)
    models, shares = last_local_models(tmp_path)
    steps = [client["steps"] for client in lines(tmp_path)[0]["clients"]]
    keep = trainable(model(config))
    start, average = flat(initial(config), keep), flat(weights(tmp_path), keep)
    effective = sum(p * t for p, t in zip(shares, steps, strict=True))
    normalised = [
        start + effective * (flat(one, keep) - start) / t
        for one, t in zip(models, steps, strict=True)
    ]
    expected = sum(
        p * float(np.linalg.norm(one - average)) for p, one in zip(shares, normalised, strict=True)
    )
    assert lines(tmp_path)[0]["diagnostics"]["drift"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("methods", ["fedavg", "fedper"])
def test_local_models_on_the_test_set_and_on_their_own_labels(tmp_path: Path, methods: str) -> None:
    """Sample by sample: a test sample of class c counts as often as the client's training set holds
    that class."""
    config = run_in_process(tmp_path, **ONE, methods=methods, partition="dirichlet(alpha=0.5)")
    models, shares = last_local_models(tmp_path)
    dataset, parts = deal_data(config)
    images = normalise(torch.from_numpy(np.array(dataset.test.images)), dataset.mean, dataset.std)
    labels = np.array(dataset.test.labels)
    network = model(config)
    network.eval()
    on_test, on_own = [], []
    for partition, arrays in enumerate(models):
        from_arrays(network, arrays)
        with torch.inference_mode():
            right = network(images).argmax(1).numpy() == labels
        seen = view(dataset, parts[partition], partition, config.clients, 0.0, config.seed)
        own = np.array([np.sum(dataset.train.labels[seen.train] == label) for label in labels])
        on_test.append(right.mean())
        on_own.append((right * own).sum() / own.sum())
    metrics = lines(tmp_path)[0]["diagnostics"]
    for name, found in (("on_test", on_test), ("on_own_labels", on_own)):
        assert metrics[f"local_model.{name}.by_clients.accuracy"] == pytest.approx(np.mean(found))
        assert metrics[f"local_model.{name}.by_examples.accuracy"] == pytest.approx(
            np.average(found, weights=shares)
        )
    clients = lines(tmp_path)[0]["clients"]
    assert [
        client["diagnostics.local_model.on_own_labels.accuracy"] for client in clients
    ] == pytest.approx(on_own)


def test_own_labels_by_hand() -> None:
    """Counts [3, 1, 0]; right/total by class: 1/2, 2/2, 0/1. (1 * 3 + 2 * 1) / (2 * 3 + 2 * 1) =
    5/8; plainly 3/5."""
    meter = OwnLabels(torch.tensor([3, 1, 0])).meter()
    answers, labels = torch.tensor([0, 1, 1, 1, 0]), torch.tensor([0, 0, 1, 1, 2])
    for part in (slice(0, 3), slice(3, 5)):
        meter.add(torch.nn.functional.one_hot(answers[part], 3).float(), labels[part])
    assert meter.result()["own_labels"] == 5 / 8
    assert meter.result()["accuracy"] == 3 / 5
    absent = OwnLabels(torch.tensor([0, 0, 0])).meter()
    absent.add(torch.zeros(1, 3), torch.tensor([0]))
    assert "own_labels" not in absent.result()


def test_samples_are_counted_over_rounds_and_a_resume(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 4, "diagnostics": True, "participation": 0.75}
    run_in_process(tmp_path / "whole", **settings)
    assert [line["diagnostics"]["samples"] for line in lines(tmp_path / "whole")] == [
        3 * 16 * 3 * n for n in (1, 2, 3, 4)
    ]
    assert lines(tmp_path / "whole", "summary")[0]["samples"] == 3 * 16 * 3 * 4
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert without_times(tmp_path / "cut") == without_times(tmp_path / "whole")


def test_samples_of_whole_passes(tmp_path: Path) -> None:
    """The short last batch counts with what it holds: two passes look at every example twice."""
    settings = {key: value for key, value in ONE.items() if key != "local_steps"}
    run_in_process(tmp_path, **settings, local_epochs=2)
    (line,) = lines(tmp_path)
    assert line["diagnostics"]["samples"] == 2 * sum(
        client["examples"] for client in line["clients"]
    )


def test_they_change_nothing_and_are_absent_unless_asked_for(tmp_path: Path) -> None:
    run_in_process(tmp_path / "with", **SMALL, diagnostics=True, model="lenet-bn")
    run_in_process(tmp_path / "without", **SMALL, model="lenet-bn")
    assert_same_bits(tmp_path / "with", tmp_path / "without")
    assert all("diagnostics" not in line for line in lines(tmp_path / "without"))


def test_models_meet_the_test_set_only_in_rounds_of_evaluation(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL, diagnostics=True, eval_every=2)
    has = [
        "local_model.on_test.by_clients.accuracy" in line["diagnostics"] for line in lines(tmp_path)
    ]
    assert has == [False, True, True]
    assert all("drift" in line["diagnostics"] for line in lines(tmp_path))


def test_several_labels_a_sample_have_no_own_distribution(tmp_path: Path) -> None:
    settings = {
        "dataset": "digits-multi(train=200, test=50)",
        "partition": "iid",
        "clients": 2,
        "local_steps": 3,
    }
    run_in_process(tmp_path, **settings, rounds=1, diagnostics=True)
    metrics = lines(tmp_path)[0]["diagnostics"]
    assert "local_model.on_test.by_clients.accuracy" in metrics
    assert "local_model.on_own_labels.by_clients.accuracy" not in metrics


def test_where_nothing_is_shared_there_is_no_drift(tmp_path: Path) -> None:
    run_in_process(tmp_path, **ONE, methods="local")
    metrics = lines(tmp_path)[0]["diagnostics"]
    assert "drift" not in metrics
    assert "local_model.on_own_labels.by_clients.accuracy" in metrics


def test_rounds_to_a_target(tmp_path: Path) -> None:
    settings = {
        "dataset": "digits",
        "partition": "iid",
        "clients": 2,
        "rounds": 3,
        "local_epochs": 1,
        "momentum": 0.9,
    }
    run_in_process(tmp_path / "low", **settings, target=0.5)
    first = next(line["round"] for line in lines(tmp_path / "low") if line["accuracy"] >= 0.5)
    (summary,) = lines(tmp_path / "low", "summary")
    assert (summary["target_accuracy"], summary["rounds_to_target"]) == (0.5, first)
    run_in_process(tmp_path / "high", **{**settings, "rounds": 1}, target=1.0)
    assert lines(tmp_path / "high", "summary")[0]["rounds_to_target"] is None
    run_in_process(tmp_path / "none", **{**settings, "rounds": 1})
    assert "rounds_to_target" not in lines(tmp_path / "none", "summary")[0]
    with pytest.raises(ConfigurationError, match="target=70"):
        configure({"target": 70})
