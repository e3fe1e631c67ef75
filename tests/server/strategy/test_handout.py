"""Handing out a set: which clients get it, and when they get it again."""

from pathlib import Path

import numpy as np
from flwr.common import FitIns, ndarrays_to_parameters
from flwr.server.strategy import FedAvg

from fedmirage.common.method import Method
from fedmirage.common.wire.handout import digest
from fedmirage.common.wire.payload import LAYOUT, Arrays, take
from fedmirage.server.record.checkpoint import Checkpoint, read_checkpoint
from fedmirage.server.strategy.average import ANSWERED
from fedmirage.server.strategy.handout import HandOut, HandOutState
from fedmirage.server.strategy.wrapper import StrategyWrapper, load_state, save_state
from tests.support.strategies import Client, NodeClient, reply

SET = [np.arange(6, dtype=np.uint8), np.array([1, 2], np.int16)]
NEXT = [np.arange(4, dtype=np.uint8)]
RECIPE = np.array([7], np.int64)
EVERYBODY = (0, 1, 2)


def fresh() -> HandOut:
    return HandOut("set", HandOutState())


def ask(
    handout: HandOut, *clients: int | Client, arrays: Arrays = SET, recipe: np.ndarray | None = None
) -> list[int]:
    """Count the arrays that each client gets beside the digest, which all of them get."""
    proxies = [Client(client) if isinstance(client, int) else client for client in clients]
    message = FitIns(ndarrays_to_parameters([np.zeros(2, np.float32)]), {LAYOUT: "shared:1"})
    found = []
    for _, ins in handout.attach([(proxy, message) for proxy in proxies], arrays, recipe):  # type: ignore[misc]
        (named, *more), _, rest = take(ins.parameters, str(ins.config[LAYOUT]), "set")
        assert np.array_equal(named, digest(arrays))
        assert rest == "shared:1"
        found.append(len(more))
    return found


def answer(handout: HandOut, *clients: int) -> None:
    handout.learn([(Client(client), reply([0, 0], 1)) for client in clients])  # type: ignore[misc]


def test_arrays_go_out_once_and_to_latecomers() -> None:
    handout = fresh()
    assert ask(handout, 0, 1) == [2, 2]
    answer(handout, 0, 1)
    assert ask(handout, *EVERYBODY) == [0, 0, 2]
    answer(handout, *EVERYBODY)
    assert ask(handout, *EVERYBODY) == [0, 0, 0]


def test_whoever_failed_or_was_silent_gets_them_again() -> None:
    """Client 1 does not answer in round 2: it may have lost the set or not have got the message."""
    handout = fresh()
    ask(handout, *EVERYBODY)
    answer(handout, *EVERYBODY)
    ask(handout, *EVERYBODY)
    answer(handout, 0, 2)
    assert handout.state.holders == [0, 2]
    assert ask(handout, *EVERYBODY) == [0, 2, 0]


def test_who_was_not_asked_stays_a_holder() -> None:
    handout = fresh()
    ask(handout, *EVERYBODY)
    answer(handout, *EVERYBODY)
    ask(handout, 0)
    answer(handout, 0)
    assert handout.state.holders == [0, 1, 2]


def test_a_round_that_is_tried_again_sends_them_again() -> None:
    handout = fresh()
    assert ask(handout, 0, 1) == [2, 2]
    assert ask(handout, 0, 1) == [2, 2]


def test_another_node_in_a_partition_s_place_gets_them() -> None:
    handout = fresh()
    ask(handout, NodeClient(0, 100), NodeClient(1, 101))
    answer(handout, 0, 1)
    assert ask(handout, NodeClient(0, 100), NodeClient(1, 202)) == [0, 2]
    answer(handout, 0, 1)
    assert ask(handout, NodeClient(0, 100), NodeClient(1, 202)) == [0, 0]


def test_a_new_version_goes_to_everybody_once() -> None:
    handout = fresh()
    ask(handout, *EVERYBODY)
    answer(handout, *EVERYBODY)
    assert ask(handout, 0, 1, arrays=NEXT) == [1, 1]
    answer(handout, 0, 1)
    assert ask(handout, *EVERYBODY, arrays=NEXT) == [0, 0, 1]
    answer(handout, *EVERYBODY)
    assert ask(handout, *EVERYBODY, arrays=SET) == [2, 2, 2]  # they have replaced it


def test_an_answer_to_a_message_without_the_set_says_nothing_about_it() -> None:
    """A method may name its set in some rounds only."""
    handout = fresh()
    ask(handout, 0, 1)
    answer(handout, 0)
    answer(handout, 0, 1, 2)
    assert handout.state.holders == [0]


def test_a_recipe_goes_to_whoever_has_not_failed() -> None:
    """Client 1 cannot follow the recipe: next it gets the arrays, and afterwards nothing."""
    handout = fresh()
    assert ask(handout, 0, 1, recipe=RECIPE) == [1, 1]
    answer(handout, 0)
    assert ask(handout, 0, 1, 2, recipe=RECIPE) == [0, 2, 1]
    answer(handout, 0, 1, 2)
    assert ask(handout, 0, 1, 2, recipe=RECIPE) == [0, 0, 0]


def test_a_secure_sum_s_one_reply_stands_for_all_who_answered() -> None:
    handout = fresh()
    ask(handout, *EVERYBODY)
    handout.learn([(Client(0), reply([0, 0], 3, **{ANSWERED: "0 2"}))])  # type: ignore[misc, arg-type]
    assert handout.state.holders == [0, 2]


class Owner(Method):
    name = "owner"


class OwnerServer(StrategyWrapper[Owner]):
    """A method's half whose state is that of its hand-out."""

    def __init__(self) -> None:
        super().__init__(FedAvg(), Owner())
        self.state = HandOutState()
        self.handout = HandOut("set", self.state)


def test_a_checkpoint_brings_the_holders_back(tmp_path: Path) -> None:
    """A restarted server goes on as the first one would have, even if the nodes' ids are new."""
    one, other = OwnerServer(), OwnerServer()
    ask(one.handout, NodeClient(0, 100), NodeClient(1, 101))
    answer(one.handout, 1)
    Checkpoint(1, [], "token", strategy=save_state(one)).write(tmp_path / "checkpoint.safetensors")
    load_state(other, read_checkpoint(tmp_path / "checkpoint.safetensors").strategy)
    assert ask(other.handout, NodeClient(0, 300), NodeClient(1, 301)) == [2, 0]
    answer(other.handout, 0, 1)
    assert ask(other.handout, 0, 1, arrays=NEXT) == [1, 1]
