"""VFTL, VHL's control by transfer: the body learns the virtual set at the server, and the run goes
on without it."""

import torch
import torch.nn.functional as F

from common.data.batches import Resident, batches, normalise
from common.device import memory_format, place
from common.learning.augment import AUGMENTATIONS, augment, mean_bytes
from common.method import FEATURES
from common.methods.vhl import Vhl
from common.methods.vhl.sets import normalisation
from common.models import build
from common.seeds import derive, torch_generator
from common.wire.manifest import Manifest
from common.wire.payload import Arrays
from common.wire.weights import from_arrays, to_arrays
from server.strategy.context import ServerContext

ENOUGH = 0.99  # training accuracy of a pass after which no other is made


def pretrain(
    params: Vhl, context: ServerContext, first: Arrays, virtual: Arrays
) -> tuple[Arrays, float]:
    """The arrays of the first model with a body that was trained on the set, and the accuracy of
    the last pass.

    Differs from the paper, which says neither how long nor what becomes of the head: at most five
    passes with the clients' own settings, and a head that is thrown away, because virtual classes
    mean nothing to real data.
    """
    config, data = context.config, context.run.dataset
    model = build(
        config.model_params,
        data.shape,
        params.count(len(data.classes)),
        0,
        derive(config.seed, "model"),
    )
    named = context.run.shared.name(first)
    kept = [entry.name if entry.part == FEATURES else "" for entry in Manifest.of(model)]
    from_arrays(
        model, [named.get(name, array) for name, array in zip(kept, to_arrays(model), strict=True)]
    )
    place(model, context.device, config)
    accuracy = 0.0
    optimizer = torch.optim.SGD(
        model.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
    )
    for epoch in range(params.pretrain_epochs):
        accuracy = one_pass(model, optimizer, virtual, params, context, epoch)
        if accuracy >= ENOUGH:
            break
    learned = dict(zip(kept, to_arrays(model), strict=True)) if params.pretrain_epochs else {}
    return [learned.get(name, array) for name, array in named.items()], accuracy


def one_pass(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    virtual: Arrays,
    params: Vhl,
    context: ServerContext,
    epoch: int,
) -> float:
    """Cross-entropy on every virtual sample once; the accuracy as it was while training."""
    config, device, data = context.config, context.device, context.run.dataset
    layout, (mean, std) = memory_format(config), normalisation(params, data.mean, data.std)
    generator = torch_generator(config.seed, "vhl.pretrain", epoch)
    images, labels = (torch.tensor(array, device=device) for array in virtual)
    resident = Resident(images.contiguous(memory_format=layout), labels.to(torch.int64))
    right = 0
    model.train()
    for index in batches(len(resident), generator, config.batch_size, epochs=1):
        if len(index) == 1:
            continue  # one sample has no variance to normalise by
        some, wanted = resident.take(index.to(device))
        varied = augment(some, AUGMENTATIONS[params.augment], generator, mean_bytes(mean))
        logits = model(normalise(varied, mean, std, layout))
        right += int((logits.argmax(1) == wanted).sum())
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, wanted).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return right / len(resident)
