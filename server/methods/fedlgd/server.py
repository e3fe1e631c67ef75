"""FedLGD on the server: hands out the global virtual images, and learns them from the averages.

Declared in common/methods/fedlgd. The mathematics is in matching.py.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import torch
from flwr.common import Parameters, Scalar, parameters_to_ndarrays
from flwr.server import ClientManager
from flwr.server.strategy import Strategy
from torch import Tensor

from fedmirage.common.image_grid import draw_classes
from fedmirage.common.method import NETWORK
from fedmirage.common.methods.fedlgd import GLOBAL, FedLgd
from fedmirage.common.methods.fedlgd.images import decode, encode
from fedmirage.common.seeds import numpy_generator
from fedmirage.common.wire.manifest import arrays_of, from_arrays
from fedmirage.common.wire.payload import Array, Arrays
from fedmirage.server.methods.fedlgd.matching import GradientMatching, Matched, match
from fedmirage.server.methods.fedlgd.measure import score_alone
from fedmirage.server.strategy.average import Aggregated, Failures, Results, Scored, participants
from fedmirage.server.strategy.context import ServerContext
from fedmirage.server.strategy.handout import HandOut, HandOutState
from fedmirage.server.strategy.wrapper import Instructions, StrategyWrapper

EVERY = 10.0  # seconds between two notes


@dataclass
class FedLgdState:
    """What outlives a round."""

    images: Arrays = field(default_factory=list)  # G, encoded as it travels; empty at first
    handout: HandOutState = field(default_factory=HandOutState)  # which clients hold G


class FedLgdServer(StrategyWrapper[FedLgd]):
    """Learns and hands out global images; the model is left to the inner strategy."""

    state: FedLgdState
    state_type = FedLgdState
    broadcast: Arrays  # theta: the model that this round's clients start from

    def __init__(self, inner: Strategy, params: FedLgd, context: ServerContext) -> None:
        super().__init__(inner, params, context)
        self.run = context.run
        self.handout = HandOut(GLOBAL, self.state.handout)
        self.learned_in = 0  # the last round that changed G

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """Remember the model that is sent, and send G to the clients that do not hold it."""
        self.broadcast = parameters_to_ndarrays(parameters)
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        if not self.params.uses_global or server_round < self.params.use_global_from:
            return asked
        return self.handout.attach(asked, [*self.images, self.labels_for_clients()])

    def aggregate_fit(self, server_round: int, results: Results, failures: Failures) -> Aggregated:
        """Average and, in a distillation round, learn G from the average."""
        self.handout.learn(results)
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        due = self.params.matches and self.params.distils(server_round)
        if not due or not self.may_learn(server_round, participants(results)):
            return aggregated, metrics
        target = self.read_gradient(server_round, aggregated)
        if not any(bool(gradient.any()) for gradient in target.values()):
            self.note(server_round, "leaves its images as they are: the average did not move")
            return aggregated, metrics
        return aggregated, {**metrics, **self.learn(server_round, target)}

    def evaluate(self, server_round: int, parameters: Parameters) -> Scored | None:
        """With --diagnostics, add what a new model learns from G alone, whenever G has changed."""
        scored = super().evaluate(server_round, parameters)
        measured = self.context.config.diagnostics and self.learned_in == server_round
        if scored is None or not measured:
            return scored
        loss, metrics = scored
        alone = score_alone(
            self.run, self.context.build_narrow_model(), self.decoded(), self.labels(), server_round
        )
        return loss, {**metrics, "fedlgd.global_alone.accuracy": alone}

    # The global images

    @property
    def images(self) -> Arrays:
        """G as it travels; it begins as noise."""
        if not self.state.images:
            samples = self.context.classes * self.params.global_per_class
            noise = numpy_generator(self.context.config.seed, "fedlgd.noise").standard_normal(
                (samples, *self.context.shape), np.float32
            )
            self.state.images = encode(noise, self.params.precision)
        return self.state.images

    def decoded(self) -> Tensor:
        """G as the clients use it."""
        images = torch.tensor(decode(self.images), device=self.context.device)
        return images.contiguous(memory_format=self.run.memory_format)

    def labels(self) -> Tensor:
        """The labels that G is learned for: class after class."""
        classes = torch.arange(self.context.classes, device=self.context.device)
        return classes.repeat_interleave(self.params.global_per_class)

    def labels_for_clients(self) -> Array:
        """The labels that clients get, which are permuted in one of the controls."""
        labels = self.labels().cpu().numpy().astype(np.int16)
        if self.params.source == "permuted":
            generator = numpy_generator(self.context.config.seed, "fedlgd.permuted")
            labels = generator.permutation(labels)
        return labels

    # Learning them

    def may_learn(self, server_round: int, clients: int) -> bool:
        """Whether an average of so many clients may be matched."""
        if clients >= self.params.min_participants:
            return True
        self.note(
            server_round,
            f"leaves its images as they are: to match an average of {clients} clients could"
            f" reveal their data (min_participants={self.params.min_participants})",
        )
        return False

    def read_gradient(self, server_round: int, aggregated: Parameters | None) -> dict[str, Tensor]:
        """g = (theta - average) / lr, by the names of the weights; nothing without an average."""
        if aggregated is None:
            return {}
        average = parameters_to_ndarrays(aggregated)
        lr = self.context.config.learning_rate(server_round)
        shared, weights = self.run.shared, self.run.shared.weights.only(NETWORK)
        before, after = (weights.pick(model, shared) for model in (self.broadcast, average))
        return {
            name: torch.tensor((old - new) / lr, device=self.context.device)
            for name, old, new in zip(weights.names, before, after, strict=True)
        }

    def learn(self, server_round: int, target: dict[str, Tensor]) -> dict[str, Scalar]:
        """Match G's gradient at theta to g, and keep what the clients will decode."""
        run, params = self.run, self.params
        model = deepcopy(self.context.model).eval()
        from_arrays(model, run.shared.place(self.broadcast, run.initial, run.manifest))
        matching = GradientMatching(
            model, target, self.labels(), run.task, run.classes, params.distance
        )
        matched = match(params, matching, self.decoded(), self.progress(server_round))
        (images,) = arrays_of([matched.images])
        self.state.images, self.learned_in = encode(images, params.precision), server_round
        if self.context.config.save_images and self.context.folder is not None:
            folder = self.context.folder / "images" / f"round-{server_round:05d}"
            data, shown = run.dataset, (self.decoded(), self.labels())
            draw_classes(*shown, data.classes, data.mean, data.std, folder / "global.png")
        if matched.failures:
            self.note(
                server_round,
                f"undid {matched.failures} steps on its images, because they were not finite, and"
                f" halved pixel_lr={params.pixel_lr:g} each time",
            )
        if not matched.losses:
            return {}
        rows = sum(int(g.flatten(1).any(1).sum()) for g in target.values() if g.ndim > 1)
        return {
            "fedlgd.distance_before": matched.losses[0],
            "fedlgd.distance": matched.losses[-1],
            "fedlgd.rows": rows,
        }

    def progress(self, server_round: int) -> Callable[[int, Matched], None]:
        """Make what writes a note every few seconds of a matching."""
        started = said = time.perf_counter()

        def watch(step: int, matched: Matched) -> None:
            nonlocal said
            now = time.perf_counter()
            if now - said < EVERY or not matched.losses:
                return
            left, said = (now - started) / step * (self.params.global_steps - step), now
            self.note(
                server_round,
                f"learns its images: {step}/{self.params.global_steps}, distance"
                f" {matched.losses[0]:.1f} to {matched.losses[-1]:.1f}, {left:.0f} s left",
                progress=True,
            )

        return watch

    def note(self, server_round: int, text: str, progress: bool = False) -> None:
        """Tell something to whoever follows the run."""
        self.context.note(server_round, f"fedlgd {text}", progress)
