"""How well the global model has learned the virtual set, and how near real features have come."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from common.data.batches import Resident, normalise
from common.learning.losses import label_distance
from common.methods.vhl import Vhl
from common.methods.vhl.sets import normalisation
from common.sheet import draw_sheet
from common.wire.payload import Arrays
from server.record.scores import Evaluator

ROWS, ACROSS = 20, 10  # classes and images of each in a picture
BATCH = 500  # virtual samples at a time
COMPARED = 2000  # test and virtual samples each, at most, whose features are compared


@dataclass
class VirtualScores:
    """Scores of whatever weights the evaluator's model has."""

    params: Vhl
    evaluator: Evaluator
    virtual: Arrays  # images and labels

    def accuracy(self) -> float:
        """How many virtual samples are taken for what they are, over all outputs."""
        model, classes = self.evaluator.model.eval(), self.evaluator.run.classes
        images, labels = self.load_set()
        right = 0
        with torch.inference_mode():
            for some, wanted in zip(
                torch.split(images, BATCH), torch.split(labels, BATCH), strict=True
            ):
                found = model(self.normalise(some)).argmax(1)
                right += int((found == self.params.output_of(wanted, classes)).sum())
        return right / len(labels)

    def feature_distance(self) -> float:
        """Between features of test samples and of virtual ones, given the label."""
        run, test = self.evaluator.run, self.evaluator.test
        model, layer = self.evaluator.model.eval(), self.params.feature
        images, labels = self.load_set()
        chosen = torch.arange(len(labels), device=labels.device)[:: -(-len(labels) // COMPARED)]
        virtual, virtual_labels = Resident(images, labels).take(chosen)
        data, real = run.dataset, test.images[:COMPARED]
        with torch.inference_mode():
            real = normalise(real, data.mean, data.std, run.memory_format)
            ours = model.feature_maps(real)[layer]
            theirs = model.feature_maps(self.normalise(virtual))[layer]
            return float(label_distance(ours, test.labels[:COMPARED], theirs, virtual_labels))

    def load_set(self) -> tuple[Tensor, Tensor]:
        """The set on the server's device."""
        run = self.evaluator.run
        images, labels = (torch.tensor(array, device=run.device) for array in self.virtual)
        return images.contiguous(memory_format=run.memory_format), labels.to(torch.int64)

    def normalise(self, images: Tensor) -> Tensor:
        """Virtual images as a network sees them in evaluation."""
        run = self.evaluator.run
        mean, std = normalisation(self.params, run.dataset.mean, run.dataset.std)
        return normalise(images, mean, std, run.memory_format)


def draw_set(virtual: Arrays, path: Path) -> None:
    """The first images of every virtual class, one row per class."""
    images, labels = torch.from_numpy(virtual[0]) / 255, virtual[1]
    rows = {
        f"{number}": list(images[np.flatnonzero(labels == number)[:ACROSS]])
        for number in np.unique(labels)[:ROWS].tolist()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_sheet(rows, (0.0,) * images.shape[1], (1.0,) * images.shape[1]).save(path)
