"""VHL on the server: makes the virtual set, hands it out once, measures how well it is learned."""

from dataclasses import dataclass, field

import numpy as np
from flwr.common import Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.strategy import Strategy

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.methods.vhl import VIRTUAL, Vhl
from fedmirage.common.methods.vhl.sets import seed_of, virtual_images, virtual_means
from fedmirage.common.models.base import LAST
from fedmirage.common.wire.manifest import from_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.methods.vhl.measure import VirtualScores, draw_set
from fedmirage.server.methods.vhl.pretrain import pretrain
from fedmirage.server.strategy.average import Aggregated, Failures, Results, Scored
from fedmirage.server.strategy.context import ServerContext, StandAlone
from fedmirage.server.strategy.handout import HandOut, HandOutState
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper


@dataclass
class VhlState:
    """What outlives a round."""

    # Images and labels, or for "vfa" the means; empty before the first round.
    virtual: Arrays = field(default_factory=list)
    handout: HandOutState = field(default_factory=HandOutState)  # which clients hold the set
    pretrained_accuracy: float = -1.0  # what "vftl" reached on the set; -1 without pre-training


class VhlServer(StrategyWrapper[Vhl]):
    """Makes and hands out the virtual set; the model is left to the inner strategy.

    In somebody else's Flower app, where the run's data are not known, the set must be given as
    `virtual`: [images, labels].
    """

    state: VhlState

    def __init__(
        self,
        inner: Strategy,
        params: Vhl | None = None,
        context: ServerContext | StandAlone | None = None,
        *,
        virtual: Arrays | None = None,
    ) -> None:
        super().__init__(inner, params or Vhl(), context)
        self.state = VhlState(virtual=virtual or [])
        self.handout = HandOut(VIRTUAL, self.state.handout)
        self.run_context = context if isinstance(context, ServerContext) else None
        known = (LAST, *self.run_context.evaluator.model.stages) if self.run_context else ()
        if known and self.params.feature not in known:
            raise ConfigurationError(
                f"methods: vhl(feature={self.params.feature!r}), but this model has"
                f" {', '.join(known)}; write one of these"
            )

    @property
    def virtual(self) -> Arrays:
        """The set, which is made when it is first needed."""
        if not self.state.virtual:
            if self.run_context is None:
                raise FedmirageError(
                    "VhlServer(inner, ...) does not know the run's data: give it virtual=[images,"
                    " labels]"
                )
            self.state.virtual = self.make_set(self.run_context)
        return self.state.virtual

    def make_set(self, context: ServerContext) -> Arrays:
        """Make images and labels, or for "vfa" the means of virtual features."""
        config, run = context.config, context.run
        if self.params.variant == "vfa":
            model, layer = context.evaluator.model, self.params.feature
            return virtual_means(model, layer, run.shape, run.classes, seed_of(config))
        virtual = virtual_images(self.params, config, run.shape, run.classes, seed_of(config))
        if config.save_images and context.folder is not None:
            draw_set(virtual, context.folder / "images" / "virtual.png")
        return virtual

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """Pre-train the body for "vftl"; the head stays as the seed gives it."""
        first = super().initialize_parameters(client_manager)
        if self.params.variant != "vftl" or self.run_context is None or first is None:
            return first
        arrays, self.state.pretrained_accuracy = pretrain(
            self.params, self.run_context, parameters_to_ndarrays(first), self.virtual
        )
        self.context.note(
            0, f"vhl: pre-trained to {self.state.pretrained_accuracy:.3f} on the virtual set"
        )
        return ndarrays_to_parameters(arrays)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Send the set, or its seed, to every client that is not known to hold it."""
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        if not self.params.sends:
            return asked
        seed = None
        if self.params.send == "seed" and self.run_context is not None:
            seed = np.array([seed_of(self.context.config)], np.int64)
        return self.handout.attach(asked, self.virtual, recipe=seed)

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Note that every client that answers holds the set."""
        if self.params.sends:
            self.handout.learn(results)
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if self.state.pretrained_accuracy >= 0:
            metrics = {**metrics, "vhl.pretrained_accuracy": self.state.pretrained_accuracy}
        return aggregated, metrics

    def evaluate(self, server_round: int, parameters: Parameters) -> Scored | None:
        """Add the accuracy on the virtual set and, with --diagnostics, the feature distance."""
        scored = super().evaluate(server_round, parameters)
        measured = self.params.variant in ("vhl", "naive")
        if scored is None or self.run_context is None or not measured:
            return scored
        loss, metrics = scored
        evaluator = self.run_context.evaluator
        from_arrays(evaluator.model, parameters_to_ndarrays(parameters))
        scores = VirtualScores(self.params, evaluator, self.virtual)
        if self.params.trains_on_images:
            metrics = {**metrics, "virtual_accuracy": scores.accuracy()}
        if self.context.config.diagnostics:
            metrics = {**metrics, "feature_distance": scores.feature_distance()}
        return loss, metrics
