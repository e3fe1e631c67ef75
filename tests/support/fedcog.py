"""A client's round on 6x6 pictures of noise, for the tests of FedCOG's generation."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmirage.client.data import LocalData
from fedmirage.client.methods.fedcog.generation import Virtual, synthesise
from fedmirage.client.objective import LocalRound
from fedmirage.common.data.batches import Resident
from fedmirage.common.data.view import count_classes
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.methods.fedcog import FedCog
from fedmirage.common.models.base import Model, frozen
from fedmirage.common.models.factory import build
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.manifest import to_arrays
from tests.support.facts import make_facts

BATCH_NORM = "convnet(width=4, depth=1, norm='batch')"
FAST: dict[str, Any] = {"samples": 12, "steps": 4, "lr": 0.1}


def local_round(
    folder: Path,
    labels: list[int] | Tensor,
    number: int = 60,
    partition: int = 0,
    model: str = "mlp(hidden=8)",
    classes: int = 4,
    extra: int = 0,
    previous: Model | None = None,
    **settings: Any,
) -> LocalRound:
    """Open a round of a client with these labels, on 6x6 pictures of noise.

    `previous` was its model in round 57.
    """
    targets = torch.as_tensor(labels)
    task = "single-label" if targets.ndim == 1 else "multi-label"
    images = torch.randint(
        256, (len(targets), 1, 6, 6), generator=torch.Generator().manual_seed(1)
    ).to(torch.uint8)
    config = configure({"model": model, "batch_size": 4, "local_steps": 6, "lr": 0.1, **settings})
    network = build(model, (1, 6, 6), classes, extra, seed=3)
    if previous is not None:
        memory = Memory(folder, 57)
        memory.put(LOCAL_MODEL, to_arrays(previous))
        memory.close()
    counts = count_classes(targets.numpy().astype(np.int64), classes)
    return LocalRound(
        number=number,
        partition=partition,
        run=make_facts(config, network, classes=classes, task=task),
        model=network,
        data=LocalData(Resident(images, targets), (0.5,), (0.5,), counts),
        received={},
        memory=Memory(folder, number),
        lr=0.1,
    )


def made(local: LocalRound, partner: Model | None = None, **params: Any) -> Virtual:
    virtual = synthesise(FedCog(**{**FAST, **params}), local, frozen(local.model), partner)
    assert virtual is not None
    return virtual


def another(model: str = "mlp(hidden=8)", seed: int = 4, extra: int = 0) -> Model:
    return build(model, (1, 6, 6), 4, extra, seed=seed)
