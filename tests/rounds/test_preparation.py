"""Work before the first round: clients that fail in it, stall, or come later, and the others."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.common import Code, GetPropertiesRes, Scalar, Status
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.app import make_app
from fedmirage.client.methods.distil import DistilClient, cache
from fedmirage.client.objective import Objective
from fedmirage.client.preparation import join, prepare
from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.methods.distil import Distil
from fedmirage.common.methods.fedavg import FedAvg
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.preparation import DONE, Preparation, read_preparation
from fedmirage.server.messages import preparation
from fedmirage.server.run import run
from tests.support.distil import local_client
from tests.support.inprocess import InProcessGrid, node_id, run_in_process
from tests.support.pairs import BASE
from tests.support.runs import lines

FAULTY = node_id(2)
SETTINGS: dict[str, Any] = {**BASE, "methods": "distil(per_class=2, steps=2, real_per_class=4)"}
Properties = dict[str, Scalar]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path / "cache")


def in_turns(change: Callable[[Properties], Properties | None], times: int = 1000) -> Any:
    """Change what one client says after a turn, for so many turns; None makes it silent."""
    left = [times]

    def intercept(sender: int, reply: Message) -> Message | None:
        if sender != FAULTY or reply.metadata.message_type != "get_properties":
            return reply
        properties = compat.recorddict_to_getpropertiesres(reply.content).properties
        if DONE not in properties or not left[0]:
            return reply
        left[0] -= 1
        changed = change(properties)
        if changed is None:
            return None
        answer = GetPropertiesRes(Status(Code.OK, ""), changed)
        reply.content = compat.getpropertiesres_to_recorddict(answer)
        return reply

    return intercept


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: None, r"no answer within .* s while it was prepared"),
        (lambda said: {"error": "no disk"}, "no disk"),
        (lambda said: {"partition": 2}, "does not say how far its preparation is"),
    ],
)
def test_a_client_that_fails_is_left_out_and_asked_again(
    tmp_path: Path, change: Any, words: str
) -> None:
    run_in_process(tmp_path, in_turns(change, times=1), **SETTINGS, round_timeout=0.3)
    first, second = lines(tmp_path)
    assert [client["partition"] for client in first["clients"]] == [0, 1, 3]
    assert [entry["partition"] for entry in first["refused"]] == [2]
    assert re.search(words, first["refused"][0]["reason"])
    assert len(second["clients"]) == 4


def test_a_client_without_progress_does_not_hold_up_the_others(tmp_path: Path) -> None:
    turns: list[float] = []

    def stall(said: Properties) -> Properties:
        turns.append(float(said[DONE]))
        return {**said, DONE: 0.4}

    run_in_process(tmp_path, in_turns(stall), **{**SETTINGS, "rounds": 1})
    (line,) = lines(tmp_path)
    assert len(turns) == 1 + preparation.STALLS  # the first turn brought it from 0 to 0.4
    assert line["refused"] == [{"partition": 2, "reason": "its preparation stays at 40 %"}]


def test_a_lost_node_is_known_by_its_message(tmp_path: Path) -> None:
    """The SuperLink's own error for a node that is gone."""

    def lose(sender: int, reply: Message) -> Message:
        if sender == FAULTY and "get_properties" in reply.metadata.message_type and answers:
            reply.__dict__["_error"] = Error(code=3, reason="node unavailable")
            reply.__dict__["_content"] = None
        answers.extend([sender] if sender == FAULTY else [])
        return reply

    answers: list[int] = []
    run_in_process(tmp_path, lose, **{**SETTINGS, "rounds": 1})
    assert lines(tmp_path)[0]["refused"][0]["reason"] == "it failed: node unavailable"


def test_if_nobody_is_ready_the_run_fails_with_every_reason(tmp_path: Path) -> None:
    few = {"partition": "classes(per_client=1, samples=1)", "retries": 0}
    with pytest.raises(FedmirageError, match=r"no class with min_real_per_class=2 real images"):
        run_in_process(tmp_path, **{**SETTINGS, **few})


def test_a_node_that_comes_later_is_prepared_before_it_trains(tmp_path: Path) -> None:
    """After round 1 node 77 takes the place of another, and its turn comes before round 2."""
    config = configure({**SETTINGS, "out": str(tmp_path / "run")})
    order: list[tuple[int, str]] = []

    def replace(sender: int, reply: Message) -> Message:
        order.append((sender, reply.metadata.message_type))
        trained = [sender for sender, kind in order if kind == "train"]
        if len(trained) == 4 and FAULTY in grid.contexts:
            old = grid.contexts.pop(FAULTY)
            grid.contexts[77] = Context(1, 77, dict(old.node_config), RecordDict(), {})
        return reply

    grid = InProcessGrid(make_app(config, tmp_path / "memory"), config.clients, replace)
    run(grid, config)
    kinds = [kind for sender, kind in order if sender == 77]
    assert kinds == ["get_properties"] * 2 + ["train"]
    first, second = lines(tmp_path / "run", "preparation")
    assert [client["partition"] for client in first["clients"]] == [0, 1, 2, 3]
    assert (second["round"], [client["partition"] for client in second["clients"]]) == (2, [2])


def test_runs_without_such_methods_ask_nothing(tmp_path: Path) -> None:
    asked: list[str] = []

    def listen(sender: int, reply: Message) -> Message:
        asked.append(reply.metadata.message_type)
        return reply

    run_in_process(tmp_path, listen, **BASE)
    assert asked.count("get_properties") == BASE["clients"]
    assert lines(tmp_path, "preparation") == []


def test_an_unexpected_error_stays_with_the_client() -> None:
    class Broken(Objective[FedAvg]):
        def prepare_client(self, local: Any, until: float) -> Preparation:
            raise ValueError("sample 17 shows Alice")

    class Preparing(FedAvg):
        prepares = True

    answer = prepare(local_client([0, 0]), [Broken(Preparing())], 1.0)  # type: ignore[list-item]
    assert answer == {"error": "its code raised an exception; its own log says why"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, True),
        ({"secagg": "on"}, False),
        ({"dp": "central(clip=1, noise=1)"}, False),
        ({"dp": "local(clip=1, noise=1)"}, False),
    ],
)
def test_notes_leave_a_client_only_in_a_plain_run(settings: dict[str, str], said: bool) -> None:
    half = DistilClient(Distil(steps=1))
    answer = prepare(local_client([0] * 3, **settings), [half], 1.0)  # type: ignore[list-item]
    assert read_preparation(answer).finished
    assert bool(read_preparation(answer).notes) == said


def test_several_methods_share_the_work() -> None:
    parts = [Preparation(1.0, ("one",), 2.0), Preparation(0.5, ("two",), 1.0)]
    assert join(parts) == Preparation(0.75, ("one", "two"), 3.0)
    assert join([]) == Preparation(1.0)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"prepared": "all", "seconds": 1.0},
        {"prepared": float("nan"), "seconds": 1.0},
        {"prepared": 1.5, "seconds": 1.0},
        {"prepared": 0.5, "seconds": -1.0},
        {"prepared": True, "seconds": 1.0},
    ],
)
def test_answers_of_another_kind_are_refused(said: Properties) -> None:
    with pytest.raises(WireError, match="does not say how far"):
        read_preparation(said)


def test_an_answer_is_read_as_it_was_written() -> None:
    turn = Preparation(0.5, ("a sentence", "another"), 2.5)
    assert read_preparation(turn.write()) == turn
