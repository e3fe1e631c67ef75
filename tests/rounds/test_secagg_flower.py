"""Secure rounds with Flower's own protocol: its mod and its workflow, as they are."""

import contextlib
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.client.mod import secaggplus_mod
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.server.workflow import SecAggPlusWorkflow

from fedmirage.common.errors import FedmirageError
from tests.support.inprocess import node_id, run_in_process
from tests.support.pairs import BASE, BATCH_NORM
from tests.support.runs import difference, lines

SMALL = {**BASE, "eval_every": 1, "round_timeout": 0.5}
COG = "fedcog(start=2, steps=2, samples=8)"
MARKS = {
    Key.PUBLIC_KEY_1: Stage.SETUP,
    Key.DESTINATION_LIST: Stage.SHARE_KEYS,
    Key.MASKED_PARAMETERS: Stage.COLLECT_MASKED_VECTORS,
    Key.SHARE_LIST: Stage.UNMASK,
}


def test_nothing_of_flowers_is_replaced() -> None:
    for flowers in (secaggplus_mod, SecAggPlusWorkflow):
        module = import_module(flowers.__module__)
        functions = dict(inspect.getmembers(module, inspect.isfunction))
        assert {"pseudo_rand_gen", "generate_shared_key", "parameters_addition"} <= set(functions)
        assert not any(one.__module__.startswith("fedmirage") for one in functions.values())


@pytest.mark.parametrize(
    "methods", ["fedavg", "fedprox(mu=0.1)", COG, "moon", "fedavgm(momentum=0.5)"]
)
def test_the_result_is_the_plain_one_within_the_steps(tmp_path: Path, methods: str) -> None:
    """Every client's numbers are rounded by less than one of 2^22 steps of 16, and the sum is
    divided by the sum of n_i / max_weight: in one round, the mean is wrong by at most
    clients x step / sum. FedCOG acts from round 2 on, so it gets twice that, times what a round of
    training makes of a difference."""
    settings = {**SMALL, "methods": methods, "rounds": 2}
    run_in_process(tmp_path / "plain", **settings)
    run_in_process(tmp_path / "flower", **settings, secagg="flower(max_weight=60)")
    (first, second) = lines(tmp_path / "flower")
    assert first["secagg"]["clients"] == second["secagg"]["clients"] == 4
    bound = 4 * (16 / 2**22) / (second["secagg"]["examples"] / 60)
    assert 0 < difference(tmp_path / "plain", tmp_path / "flower") < 10 * bound < 1e-3


@pytest.mark.parametrize("model", [BASE["model"], BATCH_NORM])
@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_one_round_is_within_one_step_per_client(
    tmp_path: Path, model: str, weighting: str
) -> None:
    settings = {**SMALL, "rounds": 1, "model": model, "weighting": weighting}
    run_in_process(tmp_path / "plain", **settings)
    run_in_process(tmp_path / "flower", **settings, secagg="flower(max_weight=60)")
    share = (
        4 if weighting == "uniform" else lines(tmp_path / "flower")[0]["secagg"]["examples"] / 60
    )
    bound = 4 * (16 / 2**22) / share
    assert difference(tmp_path / "plain", tmp_path / "flower") <= bound + 1e-6


def test_what_the_server_sees(tmp_path: Path) -> None:
    """Numbers of examples in clear, as the caution says; no array, and no figure."""
    heard: list[Message] = []

    def listen(node: int, reply: Message) -> Message:
        if node == node_id(1) and RECORD_KEY_CONFIGS in reply.content.config_records:
            heard.append(reply)
        return reply

    run_in_process(tmp_path, listen, **{**SMALL, "rounds": 1}, secagg="flower")
    assert [stage_of(reply) for reply in heard] == list(MARKS.values())
    (counted,) = [reply for reply in heard if reply.content.metric_records]
    assert [dict(record) for record in counted.content.metric_records.values()] == [
        {"num_examples": 6}
    ]
    for reply in heard:
        assert not any(len(record) for record in reply.content.array_records.values())
    assert lines(tmp_path)[0]["train"] == {}


def stage_of(reply: Message) -> str:
    if reply.has_error() or RECORD_KEY_CONFIGS not in reply.content.config_records:
        return ""
    found = set(reply.content.config_records[RECORD_KEY_CONFIGS]) & set(MARKS)
    return MARKS[found.pop()]


def lose(partition: int, stage: str) -> Any:
    def intercept(node: int, reply: Message) -> Message | None:
        return None if node == node_id(partition) and stage_of(reply) == stage else reply

    return intercept


@pytest.mark.parametrize("stage", MARKS.values())
def test_a_client_lost_in_any_stage_ends_in_a_round_without_it(tmp_path: Path, stage: str) -> None:
    settings = {**SMALL, "rounds": 1, "dataset": "digits(limit=200, size=8)", "clients": 5}
    run_in_process(tmp_path, lose(2, stage), **settings, secagg="flower")
    left = [client["partition"] for client in lines(tmp_path)[0]["clients"]]
    assert left == ([0, 1, 2, 3, 4] if stage == Stage.UNMASK else [0, 1, 3, 4])


def test_too_few_clients_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="failed: a client was lost before the training"):
        run_in_process(
            tmp_path,
            lambda node, reply: None if stage_of(reply) == Stage.SETUP else reply,
            **{**SMALL, "retries": 0},
            secagg="flower",
        )


@pytest.mark.parametrize("stage", MARKS.values())
@pytest.mark.parametrize("value", [b"junk", "text", 7, [b"x"], [7]])
def test_malformed_messages_of_one_client_are_a_sentence(
    tmp_path: Path, stage: str, value: Any
) -> None:
    """Flower checks little, so the whole try may end, but with a sentence."""
    key = {stage: key for key, stage in MARKS.items()}[stage]

    def spoil(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == stage:
            reply.content.config_records[RECORD_KEY_CONFIGS][key] = value
        return reply

    settings = {**SMALL, "rounds": 1, "retries": 0, "secagg": "flower"}
    with contextlib.suppress(FedmirageError):
        run_in_process(tmp_path, spoil, **settings)
    failed = lines(tmp_path, "summary")[0].get("reason", "")
    assert "Flower's secure aggregation failed" in failed or len(lines(tmp_path)) == 1


@pytest.mark.parametrize(
    ("secagg", "more", "reason"),
    [
        ("flower(max_weight=5)", {}, "more examples than secagg's max_weight=5; raise max_weight"),
        (
            "flower(max_weight=60, clipping_range=0.001)",
            {},
            r"exceeds the range that secagg can mask \(clipping_range=0.001\)",
        ),
    ],
)
def test_numbers_that_flower_would_cut_are_refused(
    tmp_path: Path, secagg: str, more: dict[str, Any], reason: str
) -> None:
    """Flower's mod cuts them with a mere warning in its log."""
    with pytest.raises(FedmirageError, match=reason):
        run_in_process(tmp_path, **{**SMALL, "rounds": 1, "retries": 0, **more}, secagg=secagg)
