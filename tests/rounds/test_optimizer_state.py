"""Optimisers that are kept, in whole runs: resume, warm start, lost replies, beside methods, dp."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from fedmirage.common.memory import Memory
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import SMALL, KilledError, assert_same_bits, kill_in_round, lines, weights

KEPT: dict[str, Any] = {
    **SMALL,
    "model": "mlp(hidden=16, layers=1)",
    "rounds": 4,
    "optimizer": "adam",
    "lr": 1e-3,
    "optimizer_state": "kept",
}


def differ(one: Path, other: Path) -> bool:
    return any(
        a.tobytes() != b.tobytes() for a, b in zip(weights(one), weights(other), strict=True)
    )


def test_the_first_round_is_the_same_and_the_second_is_not(tmp_path: Path) -> None:
    for state in ("fresh", "kept"):
        for rounds in (1, 2):
            settings = {**KEPT, "rounds": rounds, "optimizer_state": state}
            run_in_process(tmp_path / f"{state}{rounds}", **settings)
    assert_same_bits(tmp_path / "fresh1", tmp_path / "kept1")
    assert differ(tmp_path / "fresh2", tmp_path / "kept2")


@pytest.mark.parametrize("methods", ["fedavg", "fedsam, fedcog(start=2, steps=2)", "fedper"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, methods: str) -> None:
    settings = {**KEPT, "participation": 0.5, "methods": methods}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


def test_a_warm_start_goes_on_with_its_parents_optimisers(tmp_path: Path) -> None:
    run_in_process(tmp_path / "long", **KEPT, keep_models="all")
    run_in_process(tmp_path / "warm", **KEPT, warm_start=f"{tmp_path / 'long'}@2")
    assert_same_bits(tmp_path / "long", tmp_path / "warm")
    fresh = {**KEPT, "optimizer_state": "fresh"}
    run_in_process(tmp_path / "fresh", **fresh, warm_start=f"{tmp_path / 'long'}@2")
    assert differ(tmp_path / "long", tmp_path / "fresh")


def test_a_lost_reply_leaves_no_trace_in_the_optimiser(tmp_path: Path) -> None:
    """Client 1's reply of round 2 is lost after it trained, or it never answers that round.

    The second client dies before it can remember: its memory is removed again.
    """

    def lose(remembered: bool) -> Any:
        def intercept(node: int, reply: Message) -> Message | None:
            if node != node_id(1) or reply.metadata.group_id != "2":
                return reply
            if not remembered:
                (path,) = (tmp_path / "never").glob("memory/*/client-00001/round-00002.safetensors")
                path.unlink()
            return None

        return intercept

    settings = {**KEPT, "round_timeout": 0.5}
    run_in_process(tmp_path / "late", lose(True), **settings)
    run_in_process(tmp_path / "never", lose(False), **settings)
    assert_same_bits(tmp_path / "late", tmp_path / "never")
    run_in_process(tmp_path / "all", **KEPT)
    assert differ(tmp_path / "all", tmp_path / "late")


@pytest.mark.parametrize(
    "more",
    [
        {"dp": "local(clip=1, noise=0.1)"},
        {"dp": "central(clip=1, noise=0.1)", "secagg": "on"},
        {"methods": "fedmd-cg(server_steps=1)"},
    ],
)
def test_it_is_kept_beside_privacy_and_parts(tmp_path: Path, more: dict[str, Any]) -> None:
    """Two steps in each of two rounds are four steps of Adam."""
    run_in_process(tmp_path, **{**KEPT, "rounds": 2, "local_steps": 2, **more})
    (folder,) = tmp_path.glob("memory/*/client-00000")
    steps, *_ = Memory(folder, 3).get("optimizer.adam.classifier.weight") or []
    assert float(steps) == 4


@pytest.mark.parametrize("more", [{}, {"secagg": "on"}])
def test_a_client_that_lost_its_memory_says_so(
    tmp_path: Path, more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Client 1 loses what it remembers after round 2. Nobody starts afresh on a first visit."""

    def lose(node: int, reply: Message) -> Message:
        for path in tmp_path.glob("memory/*/client-00001/round-00002.safetensors"):
            shutil.rmtree(path.parent)
        return reply

    run_in_process(tmp_path, lose, **{**KEPT, **more})
    found = [line["optimizer"]["started_afresh"] for line in lines(tmp_path)]
    assert found == [0, 0, 1, 0]
    said = [text for text in caplog.messages if "starts afresh" in text]
    why = "this node has lost its memory of the run"
    assert said == [f"round 3: the optimiser of client 1 starts afresh: {why}"]


def test_a_client_that_joins_late_has_lost_nothing(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**KEPT, "participation": 0.25})
    assert {line["optimizer"]["started_afresh"] for line in lines(tmp_path)} == {0}


def test_nothing_is_said_of_optimisers_that_are_not_kept(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**KEPT, "optimizer_state": "fresh", "rounds": 1})
    assert "optimizer" not in lines(tmp_path)[0]
