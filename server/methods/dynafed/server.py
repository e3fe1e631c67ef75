"""DynaFed on the server, its only half: collects the path, learns the set, repairs the average.

Declared in common/methods/dynafed.py. The mathematics is in the files beside this one. In somebody
else's Flower app, write

    DynaFedServer(FedAvg(...), model=net, shape=(1, 28, 28))

with the network that the clients train and the shape of its (normalised) input. The exchanged
arrays may be those of a whole state dict, as in Flower's examples, or the parameters alone.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from flwr.common import Parameters, Scalar, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.strategy import Strategy
from torch import Tensor, nn

from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.seeds import torch_generator
from fedmirage.common.wire.manifest import arrays_of
from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.server.methods.dynafed.log import SynthesisLog
from fedmirage.server.methods.dynafed.repair import refine
from fedmirage.server.methods.dynafed.student import Student
from fedmirage.server.methods.dynafed.synthesis import Learned, Synthesis, synthesise
from fedmirage.server.methods.dynafed.trajectory import (
    MatchedWeights,
    Segments,
    inherit_path,
    unchanged,
)
from fedmirage.server.strategy.average import Aggregated, Failures, Results, Scored, participants
from fedmirage.server.strategy.context import ServerContext, StandAlone
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper

COLLECTING, REPAIRING, GIVEN_UP = "collecting", "repairing", "given up"


@dataclass
class DynaFedState:
    """What outlives a round."""

    # collecting: there is no set yet; repairing: there is one; given up: no useful one was learned.
    phase: str = COLLECTING
    begun: bool = False  # whether the path has begun, with the first model of the run
    seen: int = 0  # rounds that count towards the next synthesis
    # The paths w^0, w^1, ..., before any repair; the last one grows.
    trajectories: list[list[Arrays]] = field(default_factory=list)
    made: int = 0  # the round of the last synthesis
    images: Array | None = None  # X: (samples, channels, height, width)
    labels: Array | None = None  # Y: (samples, classes) logits
    rate: float = 0.0  # the learned eta
    repairs: int = 0  # averages that were repaired


class DynaFedServer(StrategyWrapper[DynaFed]):
    """Before its set is learned, it does exactly what the inner strategy does."""

    state: DynaFedState
    state_type = DynaFedState

    def __init__(
        self,
        inner: Strategy,
        params: DynaFed | None = None,
        context: ServerContext | StandAlone | None = None,
        *,
        model: nn.Module | None = None,
        shape: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        surroundings = context or StandAlone(network=model, shape=tuple(shape or ()), seed=seed)
        super().__init__(inner, params or DynaFed(), surroundings)
        self.matched: MatchedWeights | None = None  # known once the first model has arrived
        self.repaired_from: Parameters | None = None  # this round's average, if it was repaired
        self.model = deepcopy(surroundings.model)
        self.device, self.seed = surroundings.device, surroundings.config.seed
        self.shape, self.classes = surroundings.shape, surroundings.classes
        network = surroundings.build_narrow_model()
        self.student = Student(network, self.classes, self.params.by_hand)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Take the first model that is sent as checkpoint 0; a retried round sends the same one."""
        if not self.state.begun:
            self.begin(parameters_to_ndarrays(parameters))
        return self.inner.configure_fit(server_round, parameters, client_manager)

    def begin(self, arrays: Arrays) -> None:
        """Start the path here, or with the path of the run that a warm start begins from."""
        path: list[Arrays] = []
        if isinstance(self.context, ServerContext) and self.context.config.warm_start:
            kept, self.state.seen = inherit_path(self.params, self.context.run)
            path = [self.checkpoint(model) for model in kept]
        if not path and self.params.initial:
            path = [self.checkpoint(arrays)]
        self.state.trajectories, self.state.begun = [path], True

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Average, add the average to the path, learn the set when the path is complete, repair."""
        self.repaired_from = None
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if aggregated is None:
            self.state.seen += bool(self.wanted)
            return None, metrics
        average = parameters_to_ndarrays(aggregated)
        self.collect(server_round, average, participants(results))
        own_metrics: dict[str, Scalar] = (
            self.learn(server_round, average) if self.due(server_round) else {}
        )
        if (
            self.state.phase == REPAIRING
            and self.params.epochs
            and (self.params.same_round or server_round > self.state.made)
        ):
            repaired = self.repair(server_round, average)
            if repaired is not None:
                self.repaired_from, aggregated = aggregated, ndarrays_to_parameters(repaired)
                self.state.repairs += 1
                own_metrics["dynafed.repaired"] = 1.0
        return aggregated, {**metrics, **own_metrics}

    def evaluate(self, server_round: int, parameters: Parameters) -> Scored | None:
        """Score the repaired model, which is the global one, and the average before the repair."""
        scored = self.inner.evaluate(server_round, parameters)
        if scored is None or self.repaired_from is None:
            return scored
        loss, metrics = scored
        named = {f"dynafed.repaired.{name}": value for name, value in numbers(loss, metrics)}
        before = self.inner.evaluate(server_round, self.repaired_from)
        if before is not None:
            named |= {f"dynafed.average.{name}": value for name, value in numbers(*before)}
        return loss, {**metrics, **named}

    def idle(self) -> str | None:
        """Say why no average was repaired, so that the run is that of the inner strategy."""
        if self.state.repairs:
            return None
        if self.state.phase == GIVEN_UP:
            return "no set was accepted"
        if self.state.phase == REPAIRING:
            return f"it has a set since round {self.state.made}, but repaired no average with it"
        return f"the run ended while it collected ({self.state.seen} of {self.wanted} averages)"

    # Collecting

    @property
    def wanted(self) -> int:
        """The number of averages that the next synthesis waits for; 0 if there is none to come."""
        return self.params.resynthesise if self.state.made else self.params.length

    @property
    def longest(self) -> int:
        """The number of checkpoints of the longest path."""
        return max(map(len, self.state.trajectories), default=0)

    def collect(self, server_round: int, average: Arrays, participants: int) -> None:
        """Add an average to the path if enough clients took part and the model moved at all."""
        if not self.wanted or (self.state.seen >= self.wanted and self.longest > 1):
            return
        if participants < self.params.min_participants:
            self.context.note(
                server_round,
                f"dynafed leaves out this average of {participants} clients, because it could"
                f" reveal their data (min_participants={self.params.min_participants}); synthesis"
                " waits one round longer",
            )
            return
        self.state.seen += 1
        if not self.state.begun:
            self.begin(average)
        path, checkpoint = self.state.trajectories[-1], self.checkpoint(average)
        if not path or not unchanged(path[-1], checkpoint):
            path.append(checkpoint)

    def due(self, server_round: int) -> bool:
        """Whether the path is complete and long enough for a segment."""
        if not self.wanted or self.state.seen < self.wanted:
            return False
        if self.longest < 2:
            self.context.note(
                server_round,
                "dynafed postpones synthesis: the global model has not moved yet, so there is no"
                " path",
            )
            return False
        return True

    def checkpoint(self, arrays: Arrays) -> Arrays:
        """A copy of what is matched."""
        self.matched = self.matched or MatchedWeights.of(self.model, self.student.model, arrays)
        return self.matched.checkpoint(arrays)

    # Learning and repairing

    def learn(self, server_round: int, average: Arrays) -> dict[str, Scalar]:
        """Synthesise a set, and decide whether it is good enough to use."""
        segments = Segments.of(self.state.trajectories, self.params.segment, self.device)
        if segments.length < self.params.segment:
            self.context.note(
                server_round,
                f"dynafed shrinks segment={self.params.segment} to {segments.length}: the path is"
                " short",
            )
        folder = self.context.folder if self.context.config.save_images else None
        log = SynthesisLog(server_round, self.params.iterations, self.context.note, folder)
        synthesis = self.synthesise(server_round, segments, log)
        self.state.made, self.state.seen = server_round, 0
        accepted = synthesis.loss < self.params.max_loss
        if accepted:
            self.state.images, self.state.labels = arrays_of(
                [synthesis.learned.images, synthesis.learned.labels]
            )
            self.state.rate, self.state.phase = float(synthesis.learned.rate), REPAIRING
        elif self.state.phase == COLLECTING:
            self.state.phase = GIVEN_UP
        log.finish(synthesis, accepted, self.params.max_loss, segments)
        self.state.trajectories = (
            [*self.state.trajectories, [self.checkpoint(average)]]
            if self.params.resynthesise
            else []
        )
        return {
            "dynafed.loss": synthesis.loss,
            "dynafed.rate": float(synthesis.learned.rate),
            "dynafed.accepted": float(accepted),
        }

    def synthesise(self, server_round: int, segments: Segments, log: SynthesisLog) -> Synthesis:
        """Learn a new set, from noise that depends only on the seed and the round."""
        blank = Learned(*(tensor.to(self.device) for tensor in self.blank(server_round).tensors()))
        generator = torch_generator(self.seed, "dynafed-synthesis", server_round)
        return synthesise(self.params, self.student, segments, blank, generator, log)

    def blank(self, server_round: int) -> Learned:
        """The noise that the set of this round began as."""
        generator = torch_generator(self.seed, "dynafed-noise", server_round)
        return Learned.blank(self.params, self.shape, self.classes, generator)

    def repair(self, server_round: int, average: Arrays) -> Arrays | None:
        """Train the average on the set; None leaves the average as it is."""
        images, labels = self.training_set()
        self.matched = self.matched or MatchedWeights.of(self.model, self.student.model, average)
        generator = torch_generator(self.seed, "dynafed-repair", server_round)
        repaired = refine(
            self.params, self.model, self.matched.names, average, images, labels, generator
        )
        if repaired is None:
            self.context.note(
                server_round,
                "dynafed does not change this average: its repair was not finite; lower lr (now"
                f" {self.params.lr:g})",
            )
        return repaired

    def training_set(self) -> tuple[Tensor, Tensor]:
        """What the repair trains on: the set, or one of the controls with the same labels."""
        assert self.state.images is not None
        assert self.state.labels is not None
        images, labels = torch.tensor(self.state.images), torch.tensor(self.state.labels)
        if self.params.source == "noise":
            images = self.blank(self.state.made).images
        elif self.params.source == "permuted":
            generator = torch_generator(self.seed, "dynafed-permuted", self.state.made)
            labels = labels[torch.randperm(len(labels), generator=generator)]
        return images.to(self.device), labels.to(self.device)


def numbers(loss: float, metrics: dict[str, Scalar]) -> Iterator[tuple[str, Scalar]]:
    """Yield the own_metrics of an evaluation that are single numbers."""
    yield "loss", loss
    yield from ((name, value) for name, value in metrics.items() if isinstance(value, int | float))
