"""Sketch on the client: a second phase of training, by the same loop."""

from functools import partial

import torch
from fedmirage.common.methods.sketch import COUNTS, Sketch
from torch import Tensor

from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalRound, Step
from fedmirage.client.train import Phase, train_phase
from fedmirage.common.wire.payload import Sections


class SketchClient(Objective[Sketch]):
    """The generator learns the mean features of every label that the client has."""

    def end(self, local: LocalRound) -> Sections:
        """Train the generator against the features that were just learned."""
        generator = local.model.get_submodule("generator")
        optimizer = torch.optim.SGD(generator.parameters(), lr=0.5)
        terms = partial(self.imitation, generator)
        trained = train_phase(local, Phase(local.data.batches(local), optimizer, terms))
        local.report["term.generator.imitation"] = trained.terms["imitation"]
        return {COUNTS: [local.data.class_counts.astype("float64")]}

    def imitation(self, generator: torch.nn.Module, step: Step) -> dict[str, Tensor]:
        """The mean squared distance of generated features to real ones of the same label."""
        with torch.no_grad():
            features = step.local.model.features(step.images)
        return {"imitation": (generator(step.labels) - features).square().mean()}
