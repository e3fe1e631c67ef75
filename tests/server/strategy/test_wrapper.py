"""A wrapper around any Flower strategy: sections that come and go, state that is saved."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from flwr.common import FitIns, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAvg

from fedmirage.common.errors import FedmirageError
from fedmirage.common.methods import Method
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.wrapper import (
    StrategyWrapper,
    attach,
    chain,
    detach,
    load_state,
    save_state,
)
from tests.support.strategies import Client, Manager, reply


class Momentum(Method):
    name: ClassVar[str] = "momentum"
    factor: float = 0.5


@dataclass
class State:
    velocity: list[np.ndarray] = field(default_factory=list)
    rounds: int = 0


@dataclass
class PartState:
    counts: list[int] = field(default_factory=list)


@dataclass
class NestedState:
    part: PartState = field(default_factory=PartState)
    rounds: int = 0


class Wrapped(StrategyWrapper[Momentum]):
    def __init__(self, inner: FedAvg, params: Momentum) -> None:
        super().__init__(inner, params)
        self.state = State()


def test_a_wrapper_that_adds_nothing_changes_nothing() -> None:
    parameters = ndarrays_to_parameters([np.zeros(2, np.float32)])
    inner = Average([np.zeros(2, np.float32)])
    outer = Wrapped(inner, Momentum())
    results = [(Client(0), reply([1, 2], 1)), (Client(1), reply([3, 4], 3))]
    assert outer.aggregate_fit(1, results, []) == inner.aggregate_fit(1, results, [])
    assert outer.configure_fit(1, parameters, Manager()) is not None
    assert list(chain(outer)) == [outer]
    assert list(chain(inner)) == []


def test_it_takes_flowers_own_strategy_inside() -> None:
    outer = Wrapped(FedAvg(), Momentum())
    aggregated, _ = outer.aggregate_fit(
        1, [(Client(0), reply([2, 4], 1)), (Client(1), reply([4, 8], 1))], []
    )
    assert isinstance(aggregated, Parameters)
    np.testing.assert_array_equal(
        parameters_to_ndarrays(aggregated)[0], np.array([3, 6], np.float32)
    )


def test_attach_gives_each_client_its_own_message() -> None:
    """FedAvg gives every client the same FitIns; changing one must not change another."""
    same = FitIns(ndarrays_to_parameters([np.zeros(2, np.float32)]), {"layout": "shared:1"})
    first, second = attach(
        [(Client(0), same), (Client(1), same)], "control", [np.ones(3, np.float32)]
    )
    assert first[1] is not second[1]
    assert first[1].config["layout"] == "shared:1 control:1"
    assert same.config == {"layout": "shared:1"}
    assert len(same.parameters.tensors) == 1


def test_attach_works_on_flowers_own_messages() -> None:
    """Flower's FedAvg writes no layout: all that it sends is `shared`."""
    plain = FitIns(ndarrays_to_parameters([np.zeros(2, np.float32)]), {})
    ((_, ins),) = attach([(Client(0), plain)], "control", [np.ones(3, np.float32)])
    assert ins.config["layout"] == "shared:1 control:1"


def test_detach_in_partition_order() -> None:
    replies = []
    for partition in (1, 0):
        result = reply([1, 2], 10 + partition)
        result.parameters = ndarrays_to_parameters(
            [np.zeros(2, np.float32), np.full(1, partition, np.float32)]
        )
        result.metrics["layout"] = "shared:1 control:1"
        replies.append((Client(partition), result))
    rest, taken = detach(replies, "control")
    assert [(proxy.cid, examples, float(arrays[0][0])) for proxy, examples, arrays in taken] == [
        ("0", 10, 0.0),
        ("1", 11, 1.0),
    ]
    assert [result.metrics["layout"] for _, result in rest] == ["shared:1", "shared:1"]
    assert replies[0][1].metrics["layout"] == "shared:1 control:1"


def test_state_is_saved_by_name_and_comes_back() -> None:
    one, other = Wrapped(FedAvg(), Momentum()), Wrapped(FedAvg(), Momentum())
    one.state.velocity, one.state.rounds = [np.ones(2)], 3
    saved = save_state(one)
    assert set(saved) == {"momentum.velocity", "momentum.rounds"}
    load_state(other, saved)
    assert other.state.rounds == 3
    load_state(other, {})  # a warm start: nothing saved, nothing changed
    assert other.state.rounds == 3


def test_strategies_of_flower_s_message_family_are_refused() -> None:
    """They have other methods: `flwr.serverapp.strategy` works with messages, not with FitIns."""
    from flwr.serverapp.strategy import FedAvg as MessageFedAvg

    with pytest.raises(FedmirageError, match=r"wraps a strategy of flwr\.server\.strategy"):
        Wrapped(MessageFedAvg(), Momentum())  # type: ignore[arg-type]


def test_in_somebody_else_s_app_every_array_is_trained_and_weighs_by_examples() -> None:
    context = Wrapped(FedAvg(), Momentum()).context
    arrays = [np.zeros(2), np.zeros(3)]
    assert [entry.trainable for entry in context.describe(arrays)] == [True, True]
    assert (context.weighting, context.folder, context.config.seed) == ("examples", None, 0)


def test_the_state_of_a_part_is_saved_under_its_name_and_comes_back_into_the_same_object() -> None:
    one, other = Wrapped(FedAvg(), Momentum()), Wrapped(FedAvg(), Momentum())
    one.state, other.state = NestedState(PartState([1, 2]), 3), NestedState()  # type: ignore[assignment]
    saved, part = save_state(one), other.state.part  # type: ignore[attr-defined]
    assert saved == {"momentum.part.counts": [1, 2], "momentum.rounds": 3}
    load_state(other, saved)
    assert other.state.part is part  # type: ignore[attr-defined]
    assert part.counts == [1, 2]
