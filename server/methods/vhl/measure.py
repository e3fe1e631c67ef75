"""How well the global model has learned the virtual set, and how close real features are to it."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedmirage.common.data.batches import Resident, normalise
from fedmirage.common.image_grid import draw_classes
from fedmirage.common.learning.losses import label_distance
from fedmirage.common.methods.vhl import Vhl
from fedmirage.common.methods.vhl.sets import normalisation
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.record.scores import Evaluator

BATCH = 500  # virtual samples at a time
COMPARED = 2000  # at most this many test samples and this many virtual ones are compared


@dataclass
class VirtualScores:
    """Scores of the weights that the evaluator's model currently has."""

    params: Vhl
    evaluator: Evaluator
    virtual: Arrays  # images and labels

    def accuracy(self) -> float:
        """Measure the share of virtual samples that are recognised, over all outputs."""
        model, classes = self.evaluator.model.eval(), self.evaluator.run.classes
        images, labels = self.load_set()
        right = 0
        with torch.inference_mode():
            parts = zip(torch.split(images, BATCH), torch.split(labels, BATCH), strict=True)
            for batch, wanted in parts:
                found = model(self.normalise(batch)).argmax(1)
                right += int((found == self.params.output_of(wanted, classes)).sum())
        return right / len(labels)

    def feature_distance(self) -> float:
        """Measure how far features of test and virtual samples with the same label lie apart."""
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
        """Load the set onto the server's device."""
        run = self.evaluator.run
        images, labels = (torch.tensor(array, device=run.device) for array in self.virtual)
        return images.contiguous(memory_format=run.memory_format), labels.to(torch.int64)

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise virtual images as for evaluation."""
        run = self.evaluator.run
        mean, std = normalisation(self.params, run.dataset.mean, run.dataset.std)
        return normalise(images, mean, std, run.memory_format)


def draw_set(virtual: Arrays, path: Path) -> None:
    """Write a picture of the first images of every virtual class, one row per class."""
    images, labels = (torch.from_numpy(array) for array in virtual)
    names = [f"{number}" for number in range(int(labels.max()) + 1)]
    black, white = (0.0,) * images.shape[1], (1.0,) * images.shape[1]
    draw_classes(images / 255, labels, names, black, white, path)
