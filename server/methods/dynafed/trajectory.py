"""The path of the global model: its checkpoints, and the segments that are drawn from it.

A checkpoint is a copy of the trainable weights as arrays in a fixed order, cut to the shapes of a
network for the real classes (VHL's head is wider). For matching, each checkpoint is one flat vector
on the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedmirage.common.errors import FedmirageError
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.run import Run, blueprint
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import Manifest, to_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.record.results import FILE, read_results

SMALLEST = 1e-12  # a smaller squared movement counts as none: the ratio would be 0 / 0
TRIES = 100


@dataclass(frozen=True)
class MatchedWeights:
    """Which of the exchanged arrays the student has as trainable weights, and in which shapes."""

    names: tuple[str, ...]  # of all exchanged arrays, in their order
    shapes: dict[str, tuple[int, ...]]  # by name: the trainable weights of the student

    @classmethod
    def of(cls, model: nn.Module, student: nn.Module, arrays: Arrays) -> "MatchedWeights":
        """Find out from the shapes what the arrays are.

        They may be the weights as fedmirage sends them, a whole state dict, or the parameters.
        """
        state = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        weights = dict(student.named_parameters())
        moved = [name for name, weight in weights.items() if weight.requires_grad]
        shapes = {name: tuple(weights[name].shape) for name in moved}
        arrived = [array.shape for array in arrays]
        parameters = [name for name, _ in model.named_parameters()]
        for names in (Manifest.of(model).names, list(state), parameters):
            if arrived == [state[name] for name in names]:
                return cls(tuple(names), shapes)
        raise FedmirageError(
            f"dynafed: {len(arrived)} arrays are exchanged, which are neither the state dict nor"
            " the parameters of the model that it was given; pass the model that the clients train"
        )

    def checkpoint(self, arrays: Arrays) -> Arrays:
        """Copy the matched weights, so that nothing else writes to them."""
        named = dict(zip(self.names, arrays, strict=True))
        return [
            np.array(named[name][tuple(map(slice, shape))], order="C")
            for name, shape in self.shapes.items()
        ]


def unchanged(one: Arrays, other: Arrays) -> bool:
    """Whether two checkpoints have the same weights, bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def flatten(checkpoint: Arrays, device: torch.device) -> Tensor:
    """Join the arrays of a checkpoint to one vector, in their order."""
    return torch.cat([torch.from_numpy(array).reshape(-1) for array in checkpoint]).to(device)


def cut(weights: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """View the parts of such a vector in their shapes."""
    parts = torch.split(weights, [shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


@dataclass(frozen=True)
class Segments:
    """All starts w^t with the checkpoints w^{t+1} .. w^{t+s} after them, in one or more paths."""

    paths: list[list[Tensor]]
    starts: list[tuple[int, int]]  # (path, t)
    length: int  # s, or less if every path is shorter

    @classmethod
    def of(
        cls, trajectories: Sequence[Sequence[Arrays]], length: int, device: torch.device
    ) -> "Segments":
        """Find all segments; s is shortened if even the longest path is shorter.

        A path that is too short for a segment has none.
        """
        length = min(length, max(len(trajectory) for trajectory in trajectories) - 1)
        paths = [
            [flatten(checkpoint, device) for checkpoint in trajectory]
            for trajectory in trajectories
        ]
        starts = [
            (number, t) for number, path in enumerate(paths) for t in range(len(path) - length)
        ]
        return cls(paths, starts, length)

    def draw(self, params: DynaFed, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        """Draw a start and a target that differs from it; None if nothing ever moves."""
        for _ in range(TRIES):
            path, t = self.starts[draw_integer(len(self.starts), generator)]
            start = self.paths[path][t]
            target = self.target(self.paths[path][t + 1 : t + self.length + 1], params, generator)
            if float((start - target).square().sum()) >= SMALLEST:
                return start, target
        return None

    def target(
        self, following: list[Tensor], params: DynaFed, generator: torch.Generator
    ) -> Tensor:
        """Return w^{t+s}, or the mean of some of w^{t+1} .. w^{t+s}, drawn with replacement."""
        if params.target == "last":
            return following[-1]
        count = params.draws[draw_integer(len(params.draws), generator)]
        # (count, weights)
        drawn = torch.stack(
            [following[draw_integer(len(following), generator)] for _ in range(count)]
        )
        if not params.random_weights:
            return drawn.mean(dim=0)
        weights = torch.softmax(torch.rand(count, generator=generator), dim=0).to(drawn)
        return weights @ drawn


def draw_integer(count: int, generator: torch.Generator) -> int:
    """Draw a number from 0 to count - 1."""
    return int(torch.randint(count, (), generator=generator))


def inherit_path(params: DynaFed, run: Run) -> tuple[list[Arrays], int]:
    """Load the path of a warm start's parent (keep-models='all'), and count its averages.

    It consists of the parent's initial model and its first averages. An average of too few clients
    is skipped. The path ends before a repaired model and before one that was not kept. A parent
    that was a warm start itself has no path to inherit.
    """
    source, _, number = run.config.warm_start.partition("@")
    lines = read_results(Path(source) / FILE)
    settings = next((line for line in lines if line["kind"] == "config"), {})
    if settings.get("warm-start") or "seed" not in settings:
        return [], 0
    path: list[Arrays] = []
    if params.initial:
        parent = run.config.model_copy(update={"seed": settings["seed"]})
        path.append(to_arrays(blueprint(parent, run.shape, run.classes)))
    averages = 0
    for line in (line for line in lines if line["kind"] == "round"):
        file = Path(source) / "models" / f"round-{line['round']:05d}.safetensors"
        last = averages == params.length or (number and line["round"] > int(number))
        if last or not file.exists() or "dynafed.repaired" in line.get("methods", {}):
            break
        if count_participants(line) >= params.min_participants:
            named, _ = read_arrays(file)
            path.append([named[name] for name in run.shared.names])
            averages += 1
    return (path, averages) if averages else ([], 0)


def count_participants(line: dict[str, Any]) -> int:
    """Count the clients that trained in a round, given its line of results.jsonl."""
    return (
        int(line["secagg"]["clients"])
        if "secagg" in line
        else sum(client["examples"] > 0 for client in line["clients"])
    )
