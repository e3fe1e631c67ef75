"""Trimmed mean and median: the limit, rounds by hand, brute force, a hostile client, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server.strategy import FedAvg

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods.median import Median
from fedmirage.common.methods.trimmed_mean import TrimmedMean
from fedmirage.common.settings.config import configure
from fedmirage.server.methods.median import MedianServer
from fedmirage.server.methods.trimmed_mean import trimmed_mean
from tests.support.inprocess import node_id, run_in_process
from tests.support.rules import buffers, last_local_models, one_round, reply, rule
from tests.support.runs import SMALL, assert_same_bits, lines, weights
from tests.support.strategies import Client

TINY = "trimmed-mean(trim=0.25)"  # one of four clients on each side


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
@pytest.mark.parametrize("more", ["", ", fedavgm(momentum=0.5)"])
def test_without_trim_it_is_the_uniform_mean_bit_for_bit(
    tmp_path: Path, model: str, more: str
) -> None:
    settings = {**SMALL, "model": model, "partition": "dirichlet(alpha=0.5, min_size=2)"}
    run_in_process(tmp_path / "uniform", **settings, weighting="uniform", methods=f"fedavg{more}")
    run_in_process(tmp_path / "trimmed", **settings, methods=f"trimmed-mean(trim=0){more}")
    assert_same_bits(tmp_path / "uniform", tmp_path / "trimmed")


def test_rounds_by_hand() -> None:
    """Five clients return 1, 2, 3, 10, -90 and, in the other order, 8, 0, 4, 4, 1000.

    One is left out on each side of (-90, 1, 2, 3, 10) and of (0, 4, 4, 8, 1000): the means of the
    rest are 2 and 16/3, the medians 2 and 4. A client that trained on nothing does not count.
    Without it and the last, four are left: the medians are (2 + 3) / 2 and 4.
    """
    values = [[1, 8], [2, 0], [3, 4], [10, 4], [-90, 1000]]
    replies = [reply(value, examples=1 + number) for number, value in enumerate(values)]
    replies.append(reply([7e7, -7e7], examples=0))
    (found,) = one_round(rule("trimmed-mean(trim=0.2)", 2), [[0, 0]], *replies)
    assert found == pytest.approx([2, 16 / 3])
    assert one_round(rule("median", 2), [[0, 0]], *replies) == [[2, 4]]
    del replies[4]
    assert one_round(rule("median", 2), [[0, 0]], *replies) == [[2.5, 4]]


@pytest.mark.parametrize("clients", [3, 4, 7, 10])
def test_brute_force(clients: int) -> None:
    """Coordinate by coordinate with Python's own sort; the middle is numpy's median."""
    generator = np.random.default_rng(clients)
    models = [generator.normal(size=(3, 5)).astype(np.float32) for _ in range(clients)]
    for cut in range(1, (clients - 1) // 2 + 1):
        found = trimmed_mean(tuple(models), cut)
        assert found.dtype == np.float32
        for place in np.ndindex(3, 5):
            kept = sorted(float(model[place]) for model in models)[cut:-cut]
            assert found[place] == pytest.approx(sum(kept) / len(kept), rel=1e-6)
    middle = trimmed_mean(tuple(models), Median().cut(clients))
    np.testing.assert_allclose(middle, np.median(models, axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("trim", "clients", "cut"),
    [
        (0.1, 10, 1),
        (0.29, 100, 29),  # 28.999999999999996 in floats
        (0.25, 3, 0),
        (0.4999999999, 2, 0),  # somebody must be left
        (0.49, 101, 49),
        (0.0, 9, 0),
        (0.1, 1, 0),
    ],
)
def test_how_many_are_left_out(trim: float, clients: int, cut: int) -> None:
    assert TrimmedMean(trim=trim).cut(clients) == cut


def test_the_order_of_arrival_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    replies = [(Client(number), reply(generator.normal(size=2).tolist())) for number in range(9)]
    strategy = rule("trimmed-mean(trim=0.2)", 2)
    one, other = (strategy.aggregate_fit(1, results, []) for results in (replies, replies[::-1]))
    assert one == other
    assert one[1]["trimmed-mean.cut"] == 1


def spoil(node: int, message: Message) -> Message:
    """Client 1 is hostile: it sends 1e8 for every number, which passes the checks of replies."""
    if node != node_id(1) or message.metadata.message_type != "train":
        return message
    answer = compat.recorddict_to_fitres(message.content, keep_input=True)
    huge = [np.full_like(array, 1e8) for array in parameters_to_ndarrays(answer.parameters)]
    answer.parameters = ndarrays_to_parameters(huge)
    message.content = compat.fitres_to_recorddict(answer, keep_input=True)
    return message


@pytest.mark.parametrize("methods", ["median", TINY])
@pytest.mark.parametrize("model", ["mlp(hidden=8, layers=1)", "lenet-bn"])
def test_a_hostile_client_does_not_move_the_model(tmp_path: Path, methods: str, model: str) -> None:
    """Every number, also of BatchNorm's statistics, stays among those of the honest clients."""
    settings = {**SMALL, "model": model, "rounds": 1, "keep_models": "all"}
    config = run_in_process(tmp_path / "robust", spoil, **settings, methods=methods)
    run_in_process(tmp_path / "fedavg", spoil, **settings)
    models, _ = last_local_models(tmp_path / "robust")
    honest = [arrays for client, arrays in enumerate(models) if client != 1]
    for array, *others in zip(weights(tmp_path / "robust"), *honest, strict=True):
        assert (np.min(others, axis=0) <= array).all()
        assert (array <= np.max(others, axis=0)).all()
    assert all(array.min() > 1e7 for array in weights(tmp_path / "fedavg"))
    assert bool(buffers(config)) == (model == "lenet-bn")
    assert lines(tmp_path / "robust")[0]["methods"] == {f"{methods.split('(')[0]}.cut": 1}


def test_two_rounds_with_a_hostile_client_and_momentum(tmp_path: Path) -> None:
    """A rule to the right steps from the median, and so stays with the honest clients."""
    settings = {**SMALL, "rounds": 2, "methods": "median, fedavgm(momentum=0.5)"}
    run_in_process(tmp_path, spoil, **settings)
    assert max(np.abs(array).max() for array in weights(tmp_path)) < 10


def test_parts_that_are_sent_are_trimmed(tmp_path: Path) -> None:
    """FedPer sends the extractor, so the median is taken of these arrays and no others."""
    settings = {**SMALL, "model": "mlp(hidden=8, layers=1)", "rounds": 1, "keep_models": "all"}
    run_in_process(tmp_path, **settings, methods="median, fedper")
    models, _ = last_local_models(tmp_path)
    found = weights(tmp_path)
    assert 0 < len(found) < len(models[0])
    for array, *clients in zip(found, *models, strict=False):
        np.testing.assert_allclose(array, np.median(clients, axis=0), rtol=1e-6)


def test_in_another_flower_app() -> None:
    """Without our clients' layout, and around Flower's own strategy."""
    results: Any = [(Client(number), reply([float(number**3)])) for number in range(5)]
    for _, result in results:
        del result.metrics["layout"]
    aggregated, metrics = MedianServer(FedAvg(), Median()).aggregate_fit(1, results, [])
    assert aggregated is not None
    assert parameters_to_ndarrays(aggregated)[0].tolist() == [8]
    assert metrics == {"median.cut": 2}


@pytest.mark.parametrize("name", ["trimmed-mean", "median"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"methods": "fedavgm, {}"}, "write {} leftmost"),
        ({"methods": "fedprox, scaffold, {}"}, "cannot stand right of scaffold; write {} leftmost"),
        ({"methods": "{}, local"}, "{} replaces the average, but local sends it nothing"),
        ({"weighting": "examples"}, "{} requires weighting='uniform', not weighting='examples'"),
        ({"secagg": "on"}, "{} needs each client's model one by one, but the server sees only"),
        ({"dp": "central(clip=1, noise=1)"}, "{} reads each client's model, which central noise"),
    ],
)
def test_refusals(name: str, settings: dict[str, str], reason: str) -> None:
    filled = {key: value.format(name) for key, value in {"methods": "{}", **settings}.items()}
    with pytest.raises(ConfigurationError, match=reason.format(name)):
        configure(filled)


def test_two_cannot_replace_the_average() -> None:
    with pytest.raises(ConfigurationError, match="median and trimmed-mean each replace the"):
        configure({"methods": "median, trimmed-mean"})
    assert configure({"methods": "trimmed-mean, fedavgm"}).weighs == "uniform"


def test_a_share_of_less_than_one_client_is_cautioned() -> None:
    (caution,) = configure({"methods": "trimmed-mean", "clients": 9}).cautions
    assert "trimmed-mean(trim=0.1) leaves nobody out of 9 clients a round" in caution
    assert configure({"methods": "trimmed-mean", "clients": 10}).cautions == []
    assert configure({"methods": "trimmed-mean(trim=0)", "clients": 9}).cautions == []
