"""local, fedper, lg-fedavg: what crosses the wire, what stays, and that it survives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.record.shown import describe_scores
from fedmirage.show.progress import summary_table
from tests.support.inprocess import node_id, run_in_process
from tests.support.rules import initial, last_local_models, named
from tests.support.runs import (
    SMALL,
    KilledError,
    assert_same_bits,
    kill_in_round,
    lines,
    weights,
    without_times,
)

PARTS = {"local": (), "fedper": ("features.",), "lg-fedavg": ("classifier.",)}


def local_model(folder: Path, partition: int, before: int) -> Arrays | None:
    """A client's own model before a round."""
    token = read_checkpoint(folder / "checkpoint.safetensors").token
    return Memory(folder / "memory" / token / f"client-{partition:05d}", before).get(LOCAL_MODEL)


@pytest.mark.parametrize("methods", PARTS)
@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_exactly_its_part_is_shared_and_averaged(tmp_path: Path, methods: str, model: str) -> None:
    config = run_in_process(tmp_path, **SMALL, methods=methods, model=model)
    shared = (
        [name for name in named(config) if name.startswith(PARTS[methods])]
        if PARTS[methods]
        else []
    )
    file = tmp_path / "model.safetensors"
    assert set(read_arrays(file)[0] if file.exists() else {}) == set(shared)
    models, shares = last_local_models(tmp_path)
    for position, found in zip(map(named(config).index, shared), weights(tmp_path), strict=True):
        mean = sum(
            p * arrays[position].astype(np.float64)
            for p, arrays in zip(shares, models, strict=True)
        )
        np.testing.assert_allclose(found, mean, rtol=1e-6, atol=1e-7)


def test_local_exchanges_nothing(tmp_path: Path) -> None:
    """Every reply is inspected on its way. (Instead of no arrays, Flower sends an empty one.)"""
    seen = []

    def intercept(node: int, reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            seen.append(
                sum(
                    len(array.data)
                    for record in reply.content.array_records.values()
                    for array in record.values()
                )
            )
        return reply

    run_in_process(tmp_path, intercept, **SMALL, methods="local")
    assert seen == [0] * 12
    assert [(line["bytes_up"], line["bytes_down"]) for line in lines(tmp_path)] == [(0, 0)] * 3
    assert weights(tmp_path) == []


def test_local_training_is_a_client_alone(tmp_path: Path) -> None:
    """A client's model does not depend on whether others answer, and it moves every round."""
    alone = node_id(0)
    run_in_process(tmp_path / "all", **SMALL, methods="local", keep_models="all")
    settings = {**SMALL, "round_timeout": 0.2, "methods": "local"}
    run_in_process(
        tmp_path / "alone",
        lambda node, reply: (
            reply if node == alone or reply.metadata.message_type != "train" else None
        ),
        **settings,
    )
    assert [len(line["clients"]) for line in lines(tmp_path / "alone")] == [1, 1, 1]
    one, other, earlier = (
        local_model(tmp_path / name, 0, before)
        for name, before in (("all", 4), ("alone", 4), ("all", 3))
    )
    assert one is not None
    assert [array.tobytes() for array in one] == [array.tobytes() for array in other or []]
    assert [array.tobytes() for array in one] != [array.tobytes() for array in earlier or []]


@pytest.mark.parametrize("methods", PARTS)
def test_a_round_begins_with_the_personal_part_of_the_last(tmp_path: Path, methods: str) -> None:
    """With a learning rate of (nearly) zero from round 2 on, personal parts stay as they were."""
    settings = {
        **SMALL,
        "rounds": 6,
        "lr_decay": 1e-30,
        "participation": 0.5,
        "methods": methods,
        "keep_models": "all",
    }
    config = run_in_process(tmp_path, **settings)
    start = initial(config)
    first = {client["partition"] for client in lines(tmp_path)[0]["clients"]}
    later = {client["partition"] for line in lines(tmp_path)[1:] for client in line["clients"]}
    assert first & later
    personal = [
        n
        for n, name in enumerate(named(config))
        if not (PARTS[methods] and name.startswith(PARTS[methods]))
    ]
    for partition in first & later:
        then, now = local_model(tmp_path, partition, 2), local_model(tmp_path, partition, 7)
        assert then is not None
        assert now is not None
        for n in personal:
            np.testing.assert_allclose(now[n], then[n], rtol=0, atol=1e-7)
        assert any(np.abs(now[n] - start[n]).max() > 1e-5 for n in personal)
    for partition in later - first:
        now = local_model(tmp_path, partition, 7)
        assert now is not None
        for n in personal:  # clients that came later began with the common initial model
            np.testing.assert_allclose(now[n], start[n], rtol=0, atol=1e-7)


@pytest.mark.parametrize("methods", PARTS)
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, methods: str) -> None:
    settings = {**SMALL, "rounds": 4, "participation": 0.75, "methods": methods}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    if methods != "local":
        assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "cut")
    for partition in range(4):
        one, other = (local_model(tmp_path / name, partition, 5) for name in ("whole", "cut"))
        assert [array.tobytes() for array in one or []] == [
            array.tobytes() for array in other or []
        ]


@pytest.mark.parametrize("methods", PARTS)
def test_a_warm_start_goes_on_with_the_personal_parts(tmp_path: Path, methods: str) -> None:
    run_in_process(tmp_path / "long", **SMALL, methods=methods, keep_models="all")
    run_in_process(tmp_path / "warm", **SMALL, methods=methods, warm_start=f"{tmp_path / 'long'}@2")
    for partition in range(4):
        one, other = (local_model(tmp_path / name, partition, 4) for name in ("long", "warm"))
        assert one is not None
        assert other is not None
        assert [array.tobytes() for array in one] == [array.tobytes() for array in other]


@pytest.mark.parametrize("methods", PARTS)
def test_no_accuracy_without_a_global_model_but_named_figures(tmp_path: Path, methods: str) -> None:
    run_in_process(tmp_path, **SMALL, methods=methods, validation=0.2)
    for line in lines(tmp_path):
        assert line["accuracy"] is None
        assert 0 <= line["evaluation"]["local_model.on_test_shard.by_examples.accuracy"] <= 1
        assert 0 <= line["evaluation"]["average_of_local_models.on_test.by_examples.accuracy"] <= 1
        assert line["validation"]["loss"] > 0
        assert "local model on test shard by examples accuracy" in describe_scores(line)
    (summary,) = lines(tmp_path, "summary")
    assert summary["final_accuracy"] is None
    assert summary["final_evaluation"] == lines(tmp_path)[-1]["evaluation"]
    cells = list(summary_table(summary).columns[0].cells)
    assert "average of local models on test by examples accuracy" in cells
    assert "final accuracy" not in cells


def test_client_methods_work_beside_a_part(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 2}, methods="fedper, fedavgm(momentum=0.5)")
    assert len(lines(tmp_path)) == 2


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ("local, fedavgm", "fedavgm changes the server's update, but local sends it nothing"),
        ("fedexp, local", "fedexp changes the server's update, but local sends it nothing"),
        ("fedper, lg-fedavg", "each decide what is shared"),
        ("local, fedper", "each decide what is shared"),
        ("fedavgm, fedadam", "each change the server's update"),
    ],
)
def test_unsound_pairs_are_refused(methods: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configure({"methods": methods})
    assert any(words in problem for problem in caught.value.problems)


def test_a_method_with_sections_is_refused_beside_local() -> None:
    from typing import ClassVar

    from fedmirage.common.method import Section
    from fedmirage.common.methods import Method, clashes
    from fedmirage.common.methods.local import Local

    class Asks(Method):
        name: ClassVar[str] = "asks"
        up: ClassVar[tuple[Any, ...]] = (Section("answer"),)

    assert clashes([Local(), Asks()]) == [
        "methods: asks exchanges answer, but local exchanges nothing; drop one of them"
    ]
