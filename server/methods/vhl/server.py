"""VHL on the server: make the virtual set, hand it out once, measure how well it is learned."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from flwr.common import Parameters, Scalar, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.client_manager import ClientManager
from flwr.server.strategy import Strategy
from torch import Tensor

from common.data.batches import Resident, normalise
from common.device import memory_format
from common.errors import ConfigurationError, FedmirageError
from common.learning.losses import label_distance
from common.methods.vhl import VIRTUAL, Vhl
from common.methods.vhl.sets import normalisation, seed_of, virtual_images, virtual_means
from common.models.base import LAST
from common.sheet import grid
from common.wire.payload import Arrays
from common.wire.weights import from_arrays
from server.methods.vhl.pretrain import pretrain
from server.strategy.average import Failures, Results
from server.strategy.context import ServerContext, StandAlone
from server.strategy.handout import HandOut, HandOutState
from server.strategy.wrapper import Instructions, StrategyWrapper

ROWS, ACROSS = 20, 10  # classes and images of each in a picture
BATCH = 500  # virtual samples at a time in evaluation
COMPARED = 2000  # test and virtual samples each, at most, whose features --diagnostics compares


@dataclass
class VhlState:
    """What outlives a round."""

    virtual: Arrays = field(
        default_factory=list
    )  # images and labels, or for "vfa" the means; empty before the first round
    handout: HandOutState = field(default_factory=HandOutState)  # who holds it
    pretrained_accuracy: float = -1.0  # of "vftl" on the set, before the first round


class VhlServer(StrategyWrapper[Vhl]):
    """The model is the inner strategy's business.

    In somebody else's Flower app, where the run's data are not known, `virtual` is the set:
    [images, labels].
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
        if isinstance(context, ServerContext):
            known = (LAST, *context.evaluator.model.stages)
            if self.params.feature not in known:
                raise ConfigurationError(
                    [
                        f"methods: vhl(feature={self.params.feature!r}), but this model has"
                        f" {', '.join(known)}; write one of these"
                    ]
                )

    @property
    def virtual(self) -> Arrays:
        """The set, made when it is first asked for."""
        if not self.state.virtual:
            if not isinstance(self.context, ServerContext):
                raise FedmirageError(
                    "VhlServer(inner, ...) does not know the run's data: give it virtual=[images,"
                    " labels]"
                )
            config, evaluator = self.context.config, self.context.evaluator
            shape, classes = evaluator.dataset.shape, len(evaluator.dataset.classes)
            if self.params.variant == "vfa":
                self.state.virtual = virtual_means(
                    evaluator.model, self.params.feature, shape, classes, seed_of(config)
                )
            else:
                self.state.virtual = virtual_images(
                    self.params, config, shape, classes, seed_of(config)
                )
                if config.save_images and self.context.folder is not None:
                    picture(self.state.virtual, self.context.folder / "images" / "virtual.png")
        return self.state.virtual

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """For "vftl", a body that has learned the set; the head stays as the seed gives it."""
        first = super().initialize_parameters(client_manager)
        if (
            self.params.variant != "vftl"
            or not isinstance(self.context, ServerContext)
            or first is None
        ):
            return first
        arrays, self.state.pretrained_accuracy = pretrain(
            self.params, self.context, parameters_to_ndarrays(first), self.virtual
        )
        self.context.note(
            0, f"vhl: pre-trained to {self.state.pretrained_accuracy:.3f} on the virtual set"
        )
        return ndarrays_to_parameters(arrays)

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> Instructions:
        """The set, or its seed, goes to whoever is not known to hold it."""
        asked = self.inner.configure_fit(server_round, parameters, client_manager)
        if not self.params.sends:
            return asked
        seed = None
        if self.params.send == "seed" and isinstance(self.context, ServerContext):
            seed = np.array([seed_of(self.context.config)], np.int64)
        return self.handout.attach(asked, self.virtual, recipe=seed)

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Whoever answers holds the set."""
        if self.params.sends:
            self.handout.learn(results)
        aggregated, metrics = self.inner.aggregate_fit(server_round, results, failures)
        if self.state.pretrained_accuracy >= 0:
            metrics = {**metrics, "vhl.pretrained_accuracy": self.state.pretrained_accuracy}
        return aggregated, metrics

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """Beside the test set's, the accuracy on the virtual set; with --diagnostics how far apart
        their features are."""
        scored = super().evaluate(server_round, parameters)
        if (
            scored is None
            or not isinstance(self.context, ServerContext)
            or self.params.variant not in ("vhl", "naive")
        ):
            return scored
        loss, metrics = scored
        from_arrays(self.context.evaluator.model, parameters_to_ndarrays(parameters))
        if self.params.trains_on_images:
            metrics = {**metrics, "virtual_accuracy": self.virtual_accuracy()}
        if self.context.config.diagnostics:
            metrics = {**metrics, "feature_distance": self.feature_distance()}
        return loss, metrics

    def virtual_accuracy(self) -> float:
        """How many virtual samples the evaluator's model takes for what they are, over all
        outputs."""
        assert isinstance(self.context, ServerContext)
        evaluator = self.context.evaluator
        model, classes = evaluator.model.eval(), len(evaluator.dataset.classes)
        images, labels = self.resident()
        right = 0
        with torch.inference_mode():
            for some, wanted in zip(
                torch.split(images, BATCH), torch.split(labels, BATCH), strict=True
            ):
                found = model(self.normalised(some)).argmax(1)
                right += int((found == self.params.output_of(wanted, classes)).sum())
        return right / len(labels)

    def feature_distance(self) -> float:
        """Between the global model's features of test samples and of virtual ones, given the
        label."""
        assert isinstance(self.context, ServerContext)
        evaluator, layer = self.context.evaluator, self.params.feature
        model, data = evaluator.model.eval(), evaluator.dataset
        images, labels = self.resident()
        chosen = torch.arange(len(labels), device=labels.device)[:: -(-len(labels) // COMPARED)]
        virtual, virtual_labels = Resident(images, labels).take(chosen)
        real = evaluator.test.images[:COMPARED]
        with torch.inference_mode():
            seen = model.feature_maps(
                normalise(real, data.mean, data.std, memory_format(self.context.config))
            )[layer]
            made = model.feature_maps(self.normalised(virtual))[layer]
            return float(
                label_distance(seen, evaluator.test.labels[:COMPARED], made, virtual_labels)
            )

    def resident(self) -> tuple[Tensor, Tensor]:
        """The set on the evaluator's device."""
        assert isinstance(self.context, ServerContext)
        images, labels = (
            torch.tensor(array, device=self.context.evaluator.device) for array in self.virtual
        )
        return images.contiguous(memory_format=memory_format(self.context.config)), labels.to(
            torch.int64
        )

    def normalised(self, images: Tensor) -> Tensor:
        """Virtual images as a network sees them in evaluation."""
        assert isinstance(self.context, ServerContext)
        data = self.context.evaluator.dataset
        return normalise(
            images,
            *normalisation(self.params, data.mean, data.std),
            memory_format(self.context.config),
        )


def picture(virtual: Arrays, path: Path) -> None:
    """The first images of every virtual class, a row a class."""
    images, labels = torch.from_numpy(virtual[0]) / 255, virtual[1]
    rows = {
        f"{number}": list(images[np.flatnonzero(labels == number)[:ACROSS]])
        for number in np.unique(labels)[:ROWS].tolist()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    grid(rows, (0.0,) * images.shape[1], (1.0,) * images.shape[1]).save(path)
