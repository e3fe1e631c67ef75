"""Whole runs whose clients send 16 bits per number, and replies that are not what `wire` says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common import FitRes, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import LAYOUT, Arrays
from fedmirage.testing.runs import weights
from tests.support.inprocess import node_id, run_in_process
from tests.support.pairs import BASE, BATCH_NORM
from tests.support.runs import assert_same_bits, lines


def test_half_the_bytes_and_nearly_the_same_model(tmp_path: Path) -> None:
    """BatchNorm's statistics keep their bits; another seed would round otherwise."""
    settings = {**BASE, "model": BATCH_NORM, "methods": "scaffold"}
    for wire in ("float32", "float16", "bfloat16"):
        run_in_process(tmp_path / wire, **settings, wire=wire)
    run_in_process(tmp_path / "again", **settings, wire="float16")
    assert_same_bits(tmp_path / "float16", tmp_path / "again")
    whole = weights(tmp_path / "float32")
    for wire, within in (("float16", 1e-3), ("bfloat16", 1e-2)):
        short = weights(tmp_path / wire)
        assert [array.dtype for array in short] == [array.dtype for array in whole]
        apart = [np.abs(a - b).max() for a, b in zip(short, whole, strict=True)]
        assert 0 < max(apart) < within
    up = {wire: lines(tmp_path / wire)[0]["bytes_up"] for wire in ("float32", "float16")}
    down = {wire: lines(tmp_path / wire)[0]["bytes_down"] for wire in ("float32", "float16")}
    numbers = sum(array.size for array in whole) - 4  # weights, beside BatchNorm's statistics
    assert up["float32"] - up["float16"] == 4 * 2 * (numbers + numbers)  # of 4 clients, 2 sections
    assert down["float32"] == down["float16"]


def change(edit: Callable[[Arrays, dict[str, Any]], Arrays]) -> Any:
    """Let client 1 change its arrays and its metrics."""

    def intercept(node: int, reply: Message) -> Message:
        if node != node_id(1) or not reply.metadata.message_type.startswith("train"):
            return reply
        result: FitRes = compat.recorddict_to_fitres(reply.content, True)
        arrays = [np.array(one) for one in parameters_to_ndarrays(result.parameters)]
        result.parameters = ndarrays_to_parameters(edit(arrays, result.metrics))
        reply.content = compat.fitres_to_recorddict(result, False)
        return reply

    return intercept


def declare(kind: str) -> Callable[[Arrays, dict[str, Any]], Arrays]:
    def edit(arrays: Arrays, metrics: dict[str, Any]) -> Arrays:
        metrics[LAYOUT] = f"shared:{len(arrays)}{kind}"
        return arrays

    return edit


def first(array: Callable[[Any], Any]) -> Callable[[Arrays, dict[str, Any]], Arrays]:
    return lambda arrays, metrics: [array(arrays[0]), *arrays[1:]]


@pytest.mark.parametrize(
    ("wire", "edit", "reason"),
    [
        ("bfloat16", declare(""), "'shared' is declared as None, but this run sends 'bfloat16'"),
        (
            "bfloat16",
            declare(":float16"),
            "is declared as 'float16', but this run sends 'bfloat16'",
        ),
        ("bfloat16", declare(":bfloat16:x"), "cannot be read at"),
        ("float32", declare(":float16"), "declared as 'float16', but this run sends None"),
        (
            "bfloat16",
            first(lambda one: one.view(np.int16)),
            "is int16(8, 64), but in the model it is uint16",
        ),
        (
            "bfloat16",
            first(lambda one: one.astype(np.float32)),
            "bytes, but in the model it has 1024",
        ),
        (
            "bfloat16",
            first(lambda one: one.T),
            "is uint16(64, 8), but in the model it is uint16(8, 64)",
        ),
        ("bfloat16", first(lambda one: one | 0x7F80), "not finite"),
        ("bfloat16", first(lambda one: one & 0 | 0x7000), "holds values above 1e+09"),
        ("float16", first(lambda one: one + np.float16("inf")), "not finite"),
    ],
)
def test_a_reply_that_is_not_as_declared_costs_its_sender_the_round(
    tmp_path: Path, wire: str, edit: Any, reason: str
) -> None:
    run_in_process(tmp_path, change(edit), **{**BASE, "rounds": 1}, wire=wire)
    (line,) = lines(tmp_path)
    (refused,) = line["refused"]
    assert refused["partition"] == 1
    assert reason in refused["reason"]
    assert len(line["clients"]) == 3


def test_a_difference_that_is_too_large_is_a_sentence(tmp_path: Path) -> None:
    settings = {**BASE, "rounds": 1, "retries": 0, "local_epochs": 0, "local_steps": 1}
    with pytest.raises(Exception, match=r"the section 'shared' holds .* ends at 65504; lower lr"):
        run_in_process(tmp_path, **{**settings, "lr": 1e9}, wire="float16")


def test_secagg_and_dp_refuse_it_with_a_sentence_each() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"wire": "float16", "secagg": "on", "dp": "local(clip=1, noise=1)"})
    assert [problem for problem in refusal.value.problems if "wire" in problem] == [
        "wire='float16' rounds differences, but secagg='on' sends whole numbers of its own, whose"
        " bits its keys set; write wire='float32'",
        "wire='float16' changes an update after dp='local(clip=1, noise=1)' has bounded it; write"
        " wire='float32'",
    ]
    with pytest.raises(ConfigurationError, match="wire='float16' rounds differences"):
        configure({"wire": "float16", "secagg": "flower"})
