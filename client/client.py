"""The one Flower client: opens the round, lets every method begin, runs the one loop, lets every
method end, packs."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.client import NumPyClient
from flwr.common import NDArrays, Scalar

from client.data import LocalData
from client.diagnostics import local_model_scores
from client.dp import protect
from client.objective import LocalRound, Objective
from client.train import train
from common.data.batches import Resident
from common.data.view import ClientView
from common.device import memory_format
from common.dp.settings import DpOn
from common.errors import FedmirageError
from common.learning.task import Task, evaluate
from common.memory import LOCAL_EXAMPLES, LOCAL_MODEL, Memory
from common.methods import Method, half
from common.models import Model
from common.run import appearance
from common.secagg.settings import SecAggOn
from common.secagg.vector import SecureVector
from common.settings.config import RunConfig
from common.wire.payload import LAYOUT, SHARED, Array, Arrays, Sections, pack, unpack
from common.wire.sharing import shared_positions
from common.wire.weights import from_arrays, names, parameter_mask, to_arrays


@dataclass
class FederatedClient(NumPyClient):
    """One client of one run; made anew for every message, so that nothing lives here that must
    outlive a round."""

    config: RunConfig
    view: ClientView
    model: Model  # whatever its weights are: every message brings its own
    initial: Arrays  # the weights that the seed gives, for what is never shared
    task: Task
    device: torch.device
    memory_folder: Path
    own_data: bool = False  # all of the node's own set, not a share of a common one

    def get_properties(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Who this is, and what its data look like; nothing about what they contain."""
        seen = appearance(self.view.dataset)
        if self.own_data:
            del seen["fingerprint"]  # it would let a guess at the data be confirmed
        return {"partition": self.view.partition, "own": self.own_data, **seen}

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """One round. What goes wrong for a reason that a person can mend travels back as a
        sentence."""
        try:
            return self._fit(parameters, config)
        except FedmirageError as error:
            return [], 0, {LAYOUT: "", "error": str(error)}

    def _fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        started = time.perf_counter()
        received = unpack(parameters, str(config[LAYOUT]))
        local = self.open(received, config)
        objectives = self.objectives()
        for objective in objectives:
            objective.begin(local)
        local.steps, terms = train(local, objectives)
        self.model.eval()
        sections: Sections = {}
        for objective in objectives:
            sections |= objective.end(local)
        return self.close(local, objectives, sections, terms, started)

    def open(self, received: Sections, config: dict[str, Scalar]) -> LocalRound:
        """Load what came over what is remembered, and gather the data."""
        number = int(config["round"])
        memory = self.memory(config, number)
        broadcast = received.pop(SHARED)
        self.load(broadcast, memory)
        counts = self.view.class_counts
        data = self.view.dataset
        resident = Resident.load(
            data.train, self.view.train, self.device, memory_format(self.config)
        )
        return LocalRound(
            number=number,
            partition=self.view.partition,
            config=self.config,
            model=self.model,
            reference={
                name: value.detach().clone()
                for name, value in self.model.named_parameters()
                if value.requires_grad
            },
            data=LocalData(resident, data.mean, data.std, counts),
            received=received,
            memory=memory,
            task=self.task,
            classes=len(data.classes),
            device=self.device,
            lr=self.config.learning_rate(number),
            broadcast=broadcast,
            class_names=data.classes,
            images=self.memory_folder.parent / "images" if self.config.save_images else None,
        )

    def close(
        self,
        local: LocalRound,
        objectives: list[Objective[Method]],
        sections: Sections,
        terms: dict[str, float],
        started: float,
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Check, remember, pack."""
        arrays, every = to_arrays(self.model), names(self.model)
        bad = [
            name for name, array in zip(every, arrays, strict=True) if not np.isfinite(array).all()
        ]
        if bad:
            raise FedmirageError(
                f"training diverged in round {local.number}: {bad[0]!r} is not finite; lower lr"
                f" (now {local.lr:g})"
            )
        examples = len(self.view.train) if local.steps else 0
        local.memory.put(LOCAL_MODEL, arrays)
        local.memory.put(LOCAL_EXAMPLES, [np.array([examples], dtype=np.int64)])
        metrics: dict[str, Scalar] = {f"term.{name}": value for name, value in terms.items()}
        metrics |= {**local.report, "steps": local.steps, "samples": local.samples}
        if self.config.scores_local_models and len(self.view.test_shard):
            scores = self.score(self.view.dataset.test, self.view.test_shard)
            metrics |= {
                f"local_model.on_test_shard.by_examples.{name}": value
                for name, value in scores.items()
            }
        if self.config.diagnostics and self.config.evaluates(local.number):
            metrics |= local_model_scores(
                self.model, self.view, self.task, self.config, self.device
            )
        local.memory.close()
        shared = {every[position]: arrays[position] for position in self.shared}
        for objective in objectives:
            shared = objective.share(local, shared)
        sections = {**sections, SHARED: list(shared.values())}
        metrics["seconds"] = time.perf_counter() - started
        if isinstance(dp := self.config.dp_params, DpOn):
            sections, examples, metrics = protect(dp, local, sections, examples, metrics)
        if isinstance(self.config.secagg_params, SecAggOn):
            return [self.vector(local, sections, examples, metrics)], 1, {}
        flat, layout = pack(sections)
        return flat, examples, {**metrics, LAYOUT: layout}

    def vector(
        self, local: LocalRound, sections: Sections, examples: int, metrics: dict[str, Scalar]
    ) -> Array:
        """All that this client says, as one vector to be masked and added up."""
        every, trained = names(self.model), parameter_mask(self.model)
        shared = [every[position] for position in self.shared]
        trainable = [trained[position] for position in self.shared]
        vector = SecureVector(
            self.config,
            shared,
            local.broadcast,
            trainable,
            self.task,
            len(self.view.dataset.classes),
        )
        return vector.encode(
            sections,
            local.broadcast,
            examples,
            {name: float(value) for name, value in metrics.items()},
        )

    def evaluate(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        """The received model, completed by what this client keeps to itself, on its validation
        share."""
        if not len(self.view.validation):
            return 0.0, 0, {}
        self.load(parameters, self.memory(config, int(config["round"]) + 1))
        scores = self.score(self.view.dataset.train, self.view.validation)
        return scores.pop("loss"), len(self.view.validation), dict(scores)

    def objectives(self) -> list[Objective[Method]]:
        """The client halves of the methods line, left to right."""
        halves = [(method, half("client", method, Objective)) for method in self.config.method_list]
        return [kind(method) for method, kind in halves if kind is not None]

    def memory(self, config: dict[str, Scalar], number: int) -> Memory:
        """This client's memory of the run, or of the run that it was started from."""
        folder = f"client-{self.view.partition:05d}"
        token, _, after = str(config.get("parent", "")).partition("@")
        parent = self.memory_folder / token / folder if token else None
        own = self.memory_folder / str(config["token"]) / folder
        since = int(config["since"]) if "since" in config else None
        return Memory(own, number, self.config.keep_models == "all", parent, int(after or 0), since)

    @property
    def shared(self) -> list[int]:
        """Positions of the weights that cross the wire."""
        return shared_positions(names(self.model), self.config.method_list)

    def load(self, shared: NDArrays, memory: Memory) -> None:
        """The received weights; those that are not shared come from this client's last local model,
        at first from the seed."""
        positions = self.shared
        if len(shared) != len(positions):
            raise FedmirageError(
                f"the server sent {len(shared)} arrays, this model shares {len(positions)}; do both"
                " run the same version?"
            )
        arrays = list(self.initial)
        if len(positions) < len(arrays):
            arrays = memory.get(LOCAL_MODEL) or arrays
        for position, array in zip(positions, shared, strict=True):
            arrays[position] = array
        from_arrays(self.model, arrays)

    def score(self, split: Any, indices: Any) -> dict[str, float]:
        """The model's named metrics on some samples of this client."""
        samples = Resident.load(split, indices, self.device, memory_format(self.config))
        data = self.view.dataset
        layout = memory_format(self.config)
        return evaluate(
            self.model,
            samples.images,
            samples.labels,
            data.mean,
            data.std,
            self.task,
            memory_format=layout,
            device=self.device,
            real_classes=len(data.classes),
        )
