"""VFTL, VHL's control for transfer: the body is pre-trained on the virtual set at the server.

The run then goes on without the set.
"""

import torch
import torch.nn.functional as F

from fedmirage.common.data.batches import Resident, batches, normalise
from fedmirage.common.device import place
from fedmirage.common.learning.augment import AUGMENTATIONS, augment, mean_bytes
from fedmirage.common.method import FEATURES
from fedmirage.common.methods.vhl import Vhl
from fedmirage.common.methods.vhl.sets import normalisation
from fedmirage.common.models.beginning import freeze
from fedmirage.common.models.factory import build
from fedmirage.common.seeds import derive, torch_generator
from fedmirage.common.wire.manifest import Manifest, from_arrays, to_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.server.strategy.context import ServerContext

ENOUGH = 0.99  # the training accuracy of a pass at which pre-training stops


def pretrain(
    params: Vhl, context: ServerContext, first: Arrays, virtual: Arrays
) -> tuple[Arrays, float]:
    """Train the body of the first model on the set; return the arrays and the last accuracy.

    Differs from the paper: there are at most five passes with the clients' own settings, and the
    head is thrown away, because virtual classes mean nothing to real data and the paper says
    neither how long to train nor what becomes of the head.
    """
    config, data = context.config, context.run.dataset
    outputs, seed = params.count(len(data.classes)), derive(config.seed, "model")
    model = build(config.model_params, data.shape, outputs, 0, seed)
    named = context.run.shared.name(first)
    kept = [entry.name if entry.part == FEATURES else "" for entry in Manifest.of(model)]
    from_arrays(
        model, [named.get(name, array) for name, array in zip(kept, to_arrays(model), strict=True)]
    )
    if config.freeze:
        freeze(model, config.freeze)
    place(model, context.device, config)
    accuracy = 0.0
    optimizer = torch.optim.SGD(
        model.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )
    for epoch in range(params.pretrain_epochs):
        accuracy = train_epoch(model, optimizer, virtual, params, context, epoch)
        if accuracy >= ENOUGH:
            break
    learned = dict(zip(kept, to_arrays(model), strict=True)) if params.pretrain_epochs else {}
    return [learned.get(name, array) for name, array in named.items()], accuracy


def train_epoch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    virtual: Arrays,
    params: Vhl,
    context: ServerContext,
    epoch: int,
) -> float:
    """Train on every virtual sample once, and return the accuracy during training."""
    config, device, data = context.config, context.device, context.run.dataset
    image_format = context.run.memory_format
    mean, std = normalisation(params, data.mean, data.std)
    generator = torch_generator(config.seed, "vhl.pretrain", epoch)
    images, labels = (torch.tensor(array, device=device) for array in virtual)
    resident = Resident(images.contiguous(memory_format=image_format), labels.to(torch.int64))
    right = 0
    model.train()
    for index in batches(len(resident), generator, config.batch_size, epochs=1):
        if len(index) == 1:
            continue  # one sample has no variance to normalise by
        batch, wanted = resident.take(index)
        varied = augment(batch, AUGMENTATIONS[params.augment], generator, mean_bytes(mean))
        logits = model(normalise(varied, mean, std, image_format))
        right += int((logits.argmax(1) == wanted).sum())
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return right / len(resident)
