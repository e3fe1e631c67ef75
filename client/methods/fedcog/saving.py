"""--save-images on a client: its generated images by label, and how they evolved.

See figure 5 of FedCOG.
"""

import torch
from torch import Tensor

from fedmirage.client.round import LocalRound
from fedmirage.common.image_grid import draw_grid
from fedmirage.common.methods.fedcog import FedCog

ACROSS = 10  # images shown per label
STAGES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)  # fractions of the generation, shown as columns


class Frames:
    """The first image of every label, at a few steps of the generation."""

    def __init__(self, params: FedCog) -> None:
        steps = 0 if params.source == "noise" else params.steps
        self.steps = sorted({round(steps * stage) for stage in STAGES})
        self.strips: dict[int, dict[int, Tensor]] = {}  # label -> step -> (channels, height, width)

    def keep(self, step: int, images: Tensor, labels: Tensor) -> None:
        """Keep the images that the picture shows of this step, if it shows any."""
        if step in self.steps:
            numbers = class_numbers(labels)
            for label in dict.fromkeys(numbers):
                image = images[numbers.index(label)].detach().clone()
                self.strips.setdefault(label, {}).setdefault(step, image)


def draw_pictures(
    local: LocalRound, name: str, images: Tensor, labels: Tensor, frames: Frames
) -> None:
    """Write round-<round>/client-<partition>-<name>.png and ...-<name>-steps.png.

    Both have one row per label.
    """
    assert local.images is not None
    folder = local.images / f"round-{local.number:05d}"
    folder.mkdir(parents=True, exist_ok=True)
    start = folder / f"client-{local.partition:05d}-{name}"
    mean, std = local.data.mean, local.data.std
    numbers = torch.tensor(class_numbers(labels))
    rows = {
        title(local, label): list(images[(numbers == label).to(images.device)][:ACROSS])
        for label in frames.strips
    }
    draw_grid(rows, mean, std).save(f"{start}.png")
    strips = {
        title(local, label): [strip.get(step) for step in frames.steps]
        for label, strip in frames.strips.items()
    }
    columns = [f"step {step}" for step in frames.steps]
    draw_grid(strips, mean, std, columns).save(f"{start}-steps.png")


def title(local: LocalRound, label: int) -> str:
    """The name of a label."""
    return local.run.dataset.classes[label]


def class_numbers(labels: Tensor) -> list[int]:
    """The class numbers, also if the labels are rows with a single 1."""
    numbers: list[int] = (labels if labels.ndim == 1 else labels.argmax(1)).tolist()
    return numbers
