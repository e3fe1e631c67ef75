"""Clients that fail, lie or stay silent: refused, reported, and the round goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat

from common.errors import FedmirageError
from tests.inprocess import node_id, run_in_process
from tests.rounds.test_run import SMALL, lines, weights

FAULTY = node_id(2)


def in_fit(change: Callable[[FitRes], FitRes | None], node: int = FAULTY, rounds: tuple[int, ...] = (1, 2, 3)) -> Any:
    """Change what one client sends after training."""

    def intercept(sender: int, reply: Message) -> Message | None:
        if sender != node or reply.metadata.message_type != "train" or int(reply.metadata.group_id) not in rounds:
            return reply
        changed = change(compat.recorddict_to_fitres(reply.content, True))
        if changed is None:
            return None
        reply.content = compat.fitres_to_recorddict(changed, True)
        return reply

    return intercept


def with_arrays(change: Callable[[list[np.ndarray]], list[np.ndarray]]) -> Callable[[FitRes], FitRes]:
    def changed(result: FitRes) -> FitRes:
        arrays = change(parameters_to_ndarrays(result.parameters))
        return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), result.num_examples, result.metrics)

    return changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: [arrays[0] * np.nan, *arrays[1:]], "not finite"),
        (lambda arrays: [arrays[0].T, *arrays[1:]], "that of the model"),
        (lambda arrays: arrays[1:], "layout"),
        (lambda arrays: [array.astype(np.float64) for array in arrays], "bytes, that of the model"),
    ],
)
def test_a_bad_update_is_refused_and_the_round_goes_on(tmp_path: Path, change: Any, words: str) -> None:
    run_in_process(tmp_path, in_fit(with_arrays(change)), **SMALL)
    for line in lines(tmp_path):
        assert [client["partition"] for client in line["clients"]] == [0, 1, 3]
        ((entry),) = line["refused"]
        assert entry["partition"] == 2
        assert words in entry["reason"]
    assert all(np.isfinite(array).all() for array in weights(tmp_path))


def test_a_silent_client_is_left_out_after_the_deadline(tmp_path: Path) -> None:
    run_in_process(tmp_path, in_fit(lambda result: None, rounds=(2,)), **SMALL, round_timeout=0.5)
    assert [len(line["clients"]) for line in lines(tmp_path)] == [4, 3, 4]
    assert "round-timeout" in lines(tmp_path)[1]["refused"][0]["reason"]


def test_too_few_replies_try_again_then_fail_with_a_sentence(tmp_path: Path) -> None:
    nan = with_arrays(lambda arrays: [array * np.nan for array in arrays])
    with pytest.raises(FedmirageError, match=r"3 usable replies, 4 needed \(min-replies\).*client 2.*tried 2 times"):
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

    run_in_process(tmp_path / "faulty", in_fit(once, rounds=(2,)), **SMALL, min_replies=4, round_timeout=0.3)
    run_in_process(tmp_path / "fine", **SMALL)
    assert len(lines(tmp_path / "faulty", "retry")) == 1
    for one, other in zip(weights(tmp_path / "faulty"), weights(tmp_path / "fine"), strict=True):
        assert one.tobytes() == other.tobytes()


def test_divergence_is_reported_by_the_client_itself(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match=r"training diverged in round 1.*lower lr"):
        run_in_process(tmp_path, **SMALL, lr=1e20, retries=0)


def test_a_node_that_never_appears(tmp_path: Path) -> None:
    from client.app import make_app
    from common.config import configure
    from server.run import run
    from tests.inprocess import InProcessGrid

    config = configure({**SMALL, "out": str(tmp_path), "node_timeout": 0.5})
    grid = InProcessGrid(make_app(config, tmp_path / "memory"), config.clients)
    del grid.contexts[FAULTY]
    with pytest.raises(FedmirageError, match="1 of 4 clients have not appeared: partition 2"):
        run(grid, config)
    grid = InProcessGrid(make_app(config, tmp_path / "memory"), config.clients)
    grid.contexts[FAULTY].node_config["partition-id"] = 1
    with pytest.raises(FedmirageError, match="another node has partition-id=1 already"):
        run(grid, config)


def test_a_node_with_other_data_is_refused(tmp_path: Path) -> None:
    from client.app import make_app
    from common.config import configure
    from server.run import run
    from tests.inprocess import InProcessGrid

    config = configure({**SMALL, "out": str(tmp_path), "node_timeout": 0.5})
    other = configure({**SMALL, "dataset": "digits(limit=200)", "out": str(tmp_path)})
    with pytest.raises(FedmirageError, match="the fingerprint of its data is"):
        run(InProcessGrid(make_app(other, tmp_path / "memory"), config.clients), config)
