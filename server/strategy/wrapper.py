"""A method's server half: a strategy that wraps another strategy.

A wrapper forwards Flower's six calls. A method overrides what it changes, calls `self.inner`, and
adds its own few lines. The inner strategy may be any strategy of `flwr.server.strategy`, the family
that works with FitIns and FitRes, so `DynaFedServer(FedAvg(...))` works in somebody else's Flower
app. Strategies of the newer `flwr.serverapp.strategy`, which work with messages, are refused: they
have other methods, and secure aggregation does not support them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

from flwr.common import EvaluateIns, EvaluateRes, FitIns, Parameters, Scalar
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy
from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedmirage.common.errors import FedmirageError
from fedmirage.common.method import Weighting
from fedmirage.common.settings.language import Params
from fedmirage.common.wire.payload import LAYOUT, SHARED, Arrays, cut, decode, put, take, view
from fedmirage.server.strategy.average import (
    Aggregated,
    Failures,
    Results,
    Scored,
    in_partition_order,
    shares_of,
    weighted_mean,
)
from fedmirage.server.strategy.context import ServerContext, StandAlone

M = TypeVar("M", bound=Params)
Instructions = list[tuple[ClientProxy, FitIns]]


class StrategyWrapper(Strategy, Generic[M]):
    """Forwards everything to the inner strategy.

    `state` is what outlives a round, and what a checkpoint saves: a dataclass of arrays, lists of
    arrays, scalars, and the states of its parts. A half that has one names the class.
    """

    state: Any
    state_type: ClassVar[type[Any]] = type(None)

    def __init__(
        self, inner: Strategy, params: M, context: ServerContext | StandAlone | None = None
    ) -> None:
        if not isinstance(inner, Strategy):
            raise FedmirageError(
                f"{type(self).__name__} wraps a strategy of flwr.server.strategy, not a"
                f" {type(inner).__module__}.{type(inner).__name__}; use e.g."
                " flwr.server.strategy.FedAvg"
            )
        self.inner, self.params = inner, params
        self.context = context or StandAlone()
        self.state = self.state_type()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def idle(self) -> str | None:
        """Say why this method has changed nothing so far; None if it has changed something.

        Asked at the end of a run, since its numbers may then be those of the other methods alone.
        """
        return None

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Return the model that the first round starts from."""
        return self.inner.initialize_parameters(client_manager)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Choose the clients of this round, and what each of them gets.

        This may run twice in a round that is retried.
        """
        return self.inner.configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Make the next global model."""
        return self.inner.aggregate_fit(server_round, results, failures)

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Choose the clients that evaluate."""
        return self.inner.configure_evaluate(server_round, parameters, client_manager)

    def aggregate_evaluate(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, EvaluateRes]],
        failures: list[tuple[ClientProxy, EvaluateRes] | BaseException],
    ) -> tuple[float | None, dict[str, Scalar]]:
        """Combine the clients' evaluations."""
        return self.inner.aggregate_evaluate(server_round, results, failures)

    def evaluate(self, server_round: int, parameters: Parameters) -> Scored | None:
        """Score the global model on the server's test set.

        Scores that a method adds begin with the method's name.
        """
        return self.inner.evaluate(server_round, parameters)

    def released(self, parameters: Parameters) -> Parameters:
        """Return what is saved and scored in place of the model that the clients go on with."""
        return parameters


def attach(instructions: Instructions, name: str, arrays: Arrays) -> Instructions:
    """Add a section to every client's message.

    Each client gets a new FitIns, since FedAvg gives the same object to all of them.
    """
    attached: Instructions = []
    for proxy, ins in instructions:
        layout = str(ins.config.get(LAYOUT, f"{SHARED}:{len(ins.parameters.tensors)}"))
        parameters, layout = put(ins.parameters, layout, name, arrays)
        attached.append((proxy, FitIns(parameters, {**ins.config, LAYOUT: layout})))
    return attached


def read_models(results: Results) -> list[tuple[ClientProxy, int, Arrays]]:
    """Read (client, examples, weights) of every single model of a round, in partition order.

    The replies stay as they are. Only for methods that declare `needs_each_client`.
    """
    found = []
    for proxy, result in in_partition_order(results):
        layout = str(result.metrics.get(LAYOUT, f"{SHARED}:{len(result.parameters.tensors)}"))
        arrays, _, _ = take(result.parameters, layout, SHARED)
        found.append((proxy, result.num_examples, arrays))
    return found


def detach(results: Results, name: str) -> tuple[Results, list[tuple[ClientProxy, int, Arrays]]]:
    """Take a section out of every client's reply.

    Returns the replies without it, and (client, examples, arrays) in partition order.
    """
    rest, sections = cut_section(results, name)
    pairs = zip(rest, sections, strict=True)
    return rest, [(proxy, one.num_examples, decode(section)) for (proxy, one), section in pairs]


def cut_section(results: Results, name: str) -> tuple[Results, list[Sequence[bytes]]]:
    """Take a section out of every client's reply without decoding it, in partition order."""
    rest: Results = []
    sections: list[Sequence[bytes]] = []
    for proxy, result in in_partition_order(results):
        section, parameters, layout = cut(result.parameters, str(result.metrics[LAYOUT]), name)
        metrics = {**result.metrics, LAYOUT: layout}
        rest.append((proxy, replace(result, parameters=parameters, metrics=metrics)))
        sections.append(section)
    return rest, sections


def mean_section(results: Results, name: str, weighting: Weighting) -> tuple[Results, Arrays]:
    """Take a section out of every reply, and average it over the clients.

    The sum runs in double precision and in partition order, with one client decoded at a time.
    """
    rest, sections = cut_section(results, name)
    weights = shares_of([result.num_examples for _, result in rest], weighting)
    if weights is None:
        return rest, []
    types = [view(tensor).dtype for tensor in sections[0]]
    return rest, weighted_mean(map(decode, sections), weights, types)


def chain(strategy: Strategy) -> Iterator[StrategyWrapper[Any]]:
    """Yield the wrappers around the innermost strategy, beginning with the outermost."""
    while isinstance(strategy, StrategyWrapper):
        yield strategy
        strategy = strategy.inner


def release(strategy: Strategy, parameters: Parameters) -> Parameters:
    """Return the model that a run offers to its user, which is the global one for most methods."""
    for half in chain(strategy):
        parameters = half.released(parameters)
    return parameters


def idle(strategy: Strategy) -> dict[str, str]:
    """Find the methods that have changed nothing so far, each with its reason."""
    reasons = {half.params.name: half.idle() for half in chain(strategy)}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def save_state(strategy: Strategy) -> dict[str, Any]:
    """Collect {"method.field": value} for everything that the methods keep between rounds."""
    return {
        key: getattr(owner, name)
        for half in chain(strategy)
        for key, owner, name in state_fields(half.params.name, half.state)
    }


def load_state(strategy: Strategy, saved: dict[str, Any]) -> None:
    """Restore saved state; a method that is not in it starts afresh."""
    for half in chain(strategy):
        for key, owner, name in state_fields(half.params.name, half.state):
            if key in saved:
                _require_type(saved[key], get_type_hints(type(owner))[name], key)
                setattr(owner, name, saved[key])


def _require_type(value: Any, hint: Any, key: str) -> None:
    try:
        check = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
        check.validate_python(value, strict=True)
    except ValidationError:
        raise FedmirageError(
            f"the checkpoint's {key} is not what this method keeps; it was damaged or written by"
            " another version: start the run again"
        ) from None


def state_fields(prefix: str, state: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield ("method.field", owner, field) for a state and for the states inside it.

    An inner state belongs to a part that the method uses ("vhl.handout.holders").
    """
    for field in fields(state) if is_dataclass(state) else ():
        key, value = f"{prefix}.{field.name}", getattr(state, field.name)
        if is_dataclass(value):
            yield from state_fields(key, value)
        else:
            yield key, state, field.name
