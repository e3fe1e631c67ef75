"""What can be learned from FedLGD's global images alone."""

import numpy as np
import torch
from torch import Tensor, nn

from fedmirage.common.data.batches import batches
from fedmirage.common.learning.diffaugment import diff_augment
from fedmirage.common.learning.task import evaluate
from fedmirage.common.run import Run
from fedmirage.common.seeds import torch_generator

# The training of a new model on the images alone, as is usual for condensed sets.
EPOCHS, BATCH, LR, MOMENTUM, DECAY = 300, 256, 0.01, 0.9, 5e-4


def score_alone(
    run: Run, model: nn.Module, images: Tensor, labels: Tensor, round_number: int
) -> float:
    """Train a new model on nothing but the images; return its accuracy on the test set."""
    generator = torch_generator(run.config.seed, "fedlgd.alone", round_number)
    optimizer = torch.optim.SGD(model.parameters(), LR, MOMENTUM, weight_decay=DECAY)
    model.train()
    for index in batches(len(labels), generator, BATCH, epochs=EPOCHS):
        chosen = index.to(images.device)
        shown = images[chosen]
        shown = diff_augment(shown, generator) if run.dataset.pictures else shown
        loss = run.task.loss(model(shown), labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    everything = np.arange(len(run.dataset.test))
    test = run.load(run.dataset.test, everything)
    return evaluate(model, run.in_batches(test), run.task, run.classes)["accuracy"]
