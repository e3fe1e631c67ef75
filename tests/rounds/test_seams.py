"""The seams that no published method needs yet.

Whole runs of the methods in tests/support/methods use them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.run import blueprint
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import Manifest, to_arrays
from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.inprocess import run_in_process
from tests.support.methods import add_methods
from tests.support.runs import KilledError, assert_same_bits, kill_in_round, lines

BASE: dict[str, Any] = {
    "dataset": "digits(limit=60, size=8)",
    "partition": "classes(per_client=2)",
    "clients": 4,
    "rounds": 2,
    "model": "mlp(hidden=8, layers=1)",
    "local_epochs": 2,
    "batch_size": 6,
    "lr": 0.1,
    "server_threads": 1,
}
SHAPE = (1, 8, 8)


@pytest.fixture(autouse=True)
def _methods() -> Iterator[None]:
    with add_methods():
        yield


def manifest(methods: str, seed: int = 0) -> Manifest:
    return Manifest.of(blueprint(configure({**BASE, "methods": methods, "seed": seed}), SHAPE, 10))


def local_models(folder: Path, number: int) -> list[dict[str, np.ndarray]]:
    state = read_checkpoint(folder / "checkpoint.safetensors")
    whole = manifest("sketch")
    found = []
    for client in sorted((folder / "memory" / state.token).iterdir()):
        arrays = Memory(client, number + 1).get(LOCAL_MODEL)
        assert arrays is not None
        found.append(whole.name(arrays))
    return found


def test_an_added_part_has_the_weights_of_the_seed_and_disturbs_no_other() -> None:
    with_part, without = (
        Manifest.of(model).name(to_arrays(model))
        for model in (
            blueprint(configure({**BASE, "methods": methods}), SHAPE, 10)
            for methods in ("sketch", "fedavg")
        )
    )
    again = blueprint(configure({**BASE, "methods": "sketch"}), SHAPE, 10)
    other = blueprint(configure({**BASE, "methods": "sketch", "seed": 1}), SHAPE, 10)
    assert with_part.keys() - without.keys() == {"generator.weight"}
    assert all(np.array_equal(with_part[name], array) for name, array in without.items())
    weights = with_part["generator.weight"]
    assert np.array_equal(weights, again.get_submodule("generator").weight.detach().numpy())
    assert not np.array_equal(weights, other.get_submodule("generator").weight.detach().numpy())


def test_only_the_parts_that_are_sent_cross_the_wire(tmp_path: Path) -> None:
    """Per client: generator and classifier as float32, and ten counts; nothing of the features."""
    run_in_process(tmp_path, **{**BASE, "methods": "sketch"})
    sent = manifest("sketch").only(["classifier", "generator"])
    for line in lines(tmp_path):
        headers = 128 * 4 * (len(sent) + 1)
        assert 4 * 4 * sent.size < line["bytes_up"] <= 4 * (4 * sent.size + 8 * 10) + headers
        assert line["train"]["generator.imitation"] > 0
    named, _ = read_arrays(tmp_path / "model.safetensors")
    assert set(named) == set(sent.names)


def test_clients_load_one_part_and_keep_the_others(tmp_path: Path) -> None:
    """The classifier of round 2 starts from the average; features and generator from the client's
    own round 1. With a learning rate that moves nothing, both are seen unchanged."""
    settings = {**BASE, "methods": "sketch", "keep_models": "all", "lr": 1e-30}
    run_in_process(tmp_path, **settings)
    first, second = local_models(tmp_path, 1), local_models(tmp_path, 2)
    average, _ = read_arrays(tmp_path / "models" / "round-00001.safetensors")
    for before, after in zip(first, second, strict=True):
        for name, array in after.items():
            if name.startswith("classifier."):
                assert np.array_equal(array, average[name])
            elif name.startswith("features."):
                assert np.array_equal(array, before[name])
    assert len({after["generator.weight"].tobytes() for after in second}) == 4


def test_counts_per_class_arrive_plain_and_summed_alike(tmp_path: Path) -> None:
    run_in_process(tmp_path / "plain", **{**BASE, "methods": "sketch"})
    run_in_process(tmp_path / "secure", **{**BASE, "methods": "sketch", "secagg": "on"})
    plain, secure = (
        read_checkpoint(tmp_path / name / "checkpoint.safetensors").strategy["sketch.counts"][0]
        for name in ("plain", "secure")
    )
    examples = [client["examples"] for client in lines(tmp_path / "plain")[-1]["clients"]]
    assert plain.sum() == pytest.approx(np.mean(examples))
    np.testing.assert_allclose(secure, plain, atol=1e-6)


def test_single_models_are_read_and_left_in_place(tmp_path: Path) -> None:
    run_in_process(tmp_path / "each", **{**BASE, "methods": "sketch(each=True)"})
    run_in_process(tmp_path / "plain", **{**BASE, "methods": "sketch"})
    assert_same_bits(tmp_path / "each", tmp_path / "plain")
    assert (
        read_checkpoint(tmp_path / "each" / "checkpoint.safetensors").strategy["sketch.pairs"] == 8
    )
    with pytest.raises(ConfigurationError, match="sketch needs each client's generator one by one"):
        configure({**BASE, "methods": "sketch(each=True)", "secagg": "on"})


def test_a_resumed_run_remembers_its_parts(tmp_path: Path) -> None:
    run_in_process(tmp_path / "whole", **{**BASE, "methods": "sketch", "rounds": 3})
    settings = {**BASE, "methods": "sketch", "rounds": 3}
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_replaced_data_set_weights_and_lengths(tmp_path: Path) -> None:
    """Two classes per client are two images: one step per epoch, and every client weighs 2."""
    run_in_process(tmp_path, **{**BASE, "methods": "stand-in"})
    for line in lines(tmp_path):
        for client in line["clients"]:
            assert (client["examples"], client["steps"], client["samples"]) == (2, 2, 4)
            assert (client["stand-in.before"], client["stand-in.after"]) == (2, 2)


def test_the_replacement_acts_before_other_objectives(tmp_path: Path) -> None:
    """FedCOG, to the left of it, still sees two samples, one of each class: nothing to rebalance
    between the two that it has."""
    fedcog = "fedcog(start=1, steps=1, samples=4, labels='uniform')"
    for name, methods in {"left": f"{fedcog}, stand-in", "right": f"stand-in, {fedcog}"}.items():
        run_in_process(tmp_path / name, **{**BASE, "methods": methods, "rounds": 1})
    assert_same_bits(tmp_path / "left", tmp_path / "right")


def test_a_required_weighting_is_taken_and_another_is_refused() -> None:
    assert configure({**BASE, "methods": "stand-in"}).weighs == "uniform"
    assert configure(BASE).weighs == "examples"
    with pytest.raises(ConfigurationError, match=r"stand-in requires weighting='uniform', not"):
        configure({**BASE, "methods": "stand-in", "weighting": "examples"})
