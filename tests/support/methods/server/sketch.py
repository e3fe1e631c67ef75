"""Sketch on the server: sums of label counts, and, if asked for, a look at every pair."""

from dataclasses import dataclass, field

from fedmirage.common.methods.sketch import COUNTS, Sketch
from flwr.server.strategy import Strategy

from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.average import Aggregated, Failures, Results
from fedmirage.server.strategy.context import ServerContext, StandAlone
from fedmirage.server.strategy.wrapper import StrategyWrapper, mean_section, read_models


@dataclass
class SketchState:
    """What outlives a round."""

    counts: Arrays = field(default_factory=list)  # mean label counts of the last round's clients
    pairs: int = 0  # that were looked at, in all rounds


class SketchServer(StrategyWrapper[Sketch]):
    """Leaves the average as it is."""

    state: SketchState

    def __init__(
        self,
        inner: Strategy,
        params: Sketch,
        context: ServerContext | StandAlone | None = None,
    ) -> None:
        super().__init__(inner, params, context)
        self.state = SketchState()

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Take the counts out; the models stay in place for whoever averages them."""
        rest, self.state.counts = mean_section(results, COUNTS, "uniform")
        if self.params.each:
            self.state.pairs += len(read_models(rest))
        return self.inner.aggregate_fit(server_round, rest, failures)
