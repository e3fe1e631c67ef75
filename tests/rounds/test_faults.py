"""Clients that fail, lie or stay silent: refused, reported, and the round goes on."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.app import make_app
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import Memory, versions
from fedmirage.common.settings.config import configure
from fedmirage.server.messages.replies import exchange
from fedmirage.server.messages.roster import Roster
from fedmirage.server.run import run
from tests.support.inprocess import InProcessGrid, node_id, run_in_process
from tests.support.runs import SMALL, lines, weights

FAULTY = node_id(2)


def in_fit(
    change: Callable[[FitRes], FitRes | None],
    node: int = FAULTY,
    rounds: tuple[int, ...] = (1, 2, 3),
) -> Any:
    """Change what one client sends after training."""

    def intercept(sender: int, reply: Message) -> Message | None:
        if (
            sender != node
            or reply.metadata.message_type != "train"
            or int(reply.metadata.group_id) not in rounds
        ):
            return reply
        changed = change(compat.recorddict_to_fitres(reply.content, True))
        if changed is None:
            return None
        reply.content = compat.fitres_to_recorddict(changed, True)
        return reply

    return intercept


def with_arrays(
    change: Callable[[list[np.ndarray]], list[np.ndarray]],
) -> Callable[[FitRes], FitRes]:
    def changed(result: FitRes) -> FitRes:
        arrays = change(parameters_to_ndarrays(result.parameters))
        return FitRes(
            Status(Code.OK, ""), ndarrays_to_parameters(arrays), result.num_examples, result.metrics
        )

    return changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: [arrays[0] * np.nan, *arrays[1:]], "not finite"),
        (lambda arrays: [arrays[0].T, *arrays[1:]], "but in the model it is"),
        (lambda arrays: arrays[1:], "layout"),
        (lambda arrays: [array.astype(np.float64) for array in arrays], "bytes, but in the model"),
    ],
)
def test_a_bad_update_is_refused_and_the_round_goes_on(
    tmp_path: Path, change: Any, words: str
) -> None:
    run_in_process(tmp_path, in_fit(with_arrays(change)), **SMALL)
    for line in lines(tmp_path):
        assert [client["partition"] for client in line["clients"]] == [0, 1, 3]
        (entry,) = line["refused"]
        assert entry["partition"] == 2
        assert words in entry["reason"]
    assert all(np.isfinite(array).all() for array in weights(tmp_path))


def test_a_silent_client_is_left_out_after_the_deadline(tmp_path: Path) -> None:
    run_in_process(tmp_path, in_fit(lambda result: None, rounds=(2,)), **SMALL, round_timeout=0.5)
    assert [len(line["clients"]) for line in lines(tmp_path)] == [4, 3, 4]
    assert "round-timeout" in lines(tmp_path)[1]["refused"][0]["reason"]


def test_too_few_replies_try_again_then_fail_with_a_sentence(tmp_path: Path) -> None:
    nan = with_arrays(lambda arrays: [array * np.nan for array in arrays])
    with pytest.raises(
        FedmirageError, match=r"3 usable replies, 4 needed \(min-replies\).*client 2.*tried 2 times"
    ):
        run_in_process(tmp_path, in_fit(nan, rounds=(2,)), **SMALL, min_replies=4, retries=1)
    assert [line["round"] for line in lines(tmp_path)] == [1]
    assert len(lines(tmp_path, "retry")) == 2
    (summary,) = lines(tmp_path, "summary")
    assert summary["status"] == "failed"
    assert "client 2" in summary["reason"]


def test_a_round_that_fails_once_is_repeated_as_if_nothing_had_been(tmp_path: Path) -> None:
    calls = []

    def once(result: FitRes) -> FitRes | None:
        calls.append(1)
        return None if len(calls) == 1 else result

    run_in_process(
        tmp_path / "faulty", in_fit(once, rounds=(2,)), **SMALL, min_replies=4, round_timeout=0.3
    )
    run_in_process(tmp_path / "fine", **SMALL)
    assert len(lines(tmp_path / "faulty", "retry")) == 1
    for one, other in zip(weights(tmp_path / "faulty"), weights(tmp_path / "fine"), strict=True):
        assert one.tobytes() == other.tobytes()


def test_divergence_is_reported_by_the_client_itself(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match=r"training diverged in round 1.*lower lr"):
        run_in_process(tmp_path, **SMALL, lr=1e20, retries=0)


def test_a_node_that_never_appears(tmp_path: Path) -> None:
    config = configure({**SMALL, "out": str(tmp_path), "node_timeout": 0.5})
    grid = InProcessGrid(make_app(config, tmp_path / "memory"), config.clients)
    del grid.contexts[FAULTY]
    with pytest.raises(FedmirageError, match="1 of 4 clients have not appeared: partition 2"):
        run(grid, config)
    config = configure({**SMALL, "out": str(tmp_path / "twice"), "node_timeout": 0.5})
    grid = InProcessGrid(make_app(config, tmp_path / "memory"), config.clients)
    grid.contexts[FAULTY].node_config["partition-id"] = 1
    with pytest.raises(FedmirageError, match="another node already has partition-id=1"):
        run(grid, config)


def test_a_node_with_other_data_is_refused(tmp_path: Path) -> None:
    config = configure({**SMALL, "out": str(tmp_path), "node_timeout": 0.5})
    other = configure({**SMALL, "dataset": "digits(limit=200)", "out": str(tmp_path)})
    with pytest.raises(FedmirageError, match="the fingerprint of its data is"):
        run(InProcessGrid(make_app(other, tmp_path / "memory"), config.clients), config)


def test_refused_nodes_are_not_waited_for_when_nobody_else_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.3)
    config = configure({**SMALL, "out": str(tmp_path), "node_timeout": 300})
    other = configure({**SMALL, "dataset": "digits(limit=200)", "out": str(tmp_path)})
    started = time.monotonic()
    with pytest.raises(FedmirageError, match=r"4 of 4 nodes were refused.*fingerprint") as caught:
        run(InProcessGrid(make_app(other, tmp_path / "memory"), config.clients), config)
    assert str(caught.value).count("fingerprint") == 1, "one reason is said once"
    assert time.monotonic() - started < 60


def lost(node: int, rounds: tuple[int, ...]) -> Any:
    """What the SuperLink writes for a node that is gone: an error that bears the SuperLink's own
    id."""

    def intercept(sender: int, reply: Message) -> Message:
        if (
            sender == node
            and reply.metadata.message_type == "train"
            and int(reply.metadata.group_id) in rounds
        ):
            reply.__dict__["_error"], reply.__dict__["_content"] = (
                Error(code=3, reason="node unavailable"),
                None,
            )
            reply.metadata.__dict__["_src_node_id"] = 1
        return reply

    return intercept


def test_an_error_written_by_the_superlink_is_known_by_its_message(tmp_path: Path) -> None:
    run_in_process(tmp_path, lost(FAULTY, (2,)), **SMALL)
    assert [len(line["clients"]) for line in lines(tmp_path)] == [4, 3, 4]
    assert lines(tmp_path)[1]["refused"] == [
        {"partition": 2, "reason": "it failed: node unavailable"}
    ]


@pytest.mark.parametrize("methods", ["scaffold", "feddyn", "moon"])
def test_a_reply_that_did_not_count_leaves_no_trace_in_the_clients_memory(
    tmp_path: Path, methods: str
) -> None:
    """Lost on its way in round 2, or never asked in round 2: what comes after is the same."""
    settings = {**SMALL, "methods": methods}
    run_in_process(tmp_path / "late", lost(FAULTY, (2,)), **settings)

    def broken(result: FitRes) -> FitRes:
        return FitRes(result.status, result.parameters, 0, {"layout": "", "error": "not today"})

    run_in_process(tmp_path / "refused", in_fit(broken, rounds=(2,)), **settings)
    for one, other in zip(weights(tmp_path / "late"), weights(tmp_path / "refused"), strict=True):
        assert one.tobytes() == other.tobytes()
    memory = Memory(next((tmp_path / "late" / "memory").iterdir()) / "client-00002", 4)
    assert [path.name for path in versions(memory.folder)] == [
        "round-00001.safetensors",
        "round-00003.safetensors",
    ]


def test_a_restarted_node_takes_its_old_place(tmp_path: Path) -> None:
    """The new node comes while the old one is still listed, is turned away, and is asked again once
    the old one is gone."""
    config = configure({**SMALL, "out": str(tmp_path), "node_timeout": 0.5})
    grid = InProcessGrid(make_app(config, tmp_path / "memory"), config.clients)
    roster = Roster(grid, config.clients, config.seed, partial(exchange, grid), {})
    roster.await_all(1)
    old = grid.contexts[FAULTY]
    grid.contexts[77] = Context(1, 77, dict(old.node_config), RecordDict(), {})
    roster.refresh(1)
    assert roster.proxies[2].node_id == FAULTY
    assert "already" in roster.refused[77]
    del grid.contexts[FAULTY]
    roster.refresh(1)
    assert roster.proxies[2].node_id == 77
    assert roster.refused == {}


def test_validation_without_validation_data_is_said(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="no client has validation data"):
        run_in_process(
            tmp_path, **SMALL, partition="classes(per_client=1, samples=1)", validation=0.2
        )


def test_an_old_run_is_not_overwritten(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    before = (tmp_path / "results.jsonl").read_text()
    with pytest.raises(FedmirageError, match="holds the results of another run"):
        run_in_process(tmp_path, **SMALL)
    assert (tmp_path / "results.jsonl").read_text() == before
