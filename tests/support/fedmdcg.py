"""FedMD-CG on a few numbers: one pixel, one feature, two classes, and one feature per class.

The extractor is F(x) = a x, the classifier has the logits (d_0 f, d_1 f), and the generator knows
one feature per class, whatever the noise: G(z, y) = m_y. Everything else is the real code.
"""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from torch import nn

from fedmirage.client.data import LocalData
from fedmirage.client.round import LocalRound
from fedmirage.common.data.batches import Resident
from fedmirage.common.memory import Memory
from fedmirage.common.methods._labels import SHARES
from fedmirage.common.models.base import Model
from fedmirage.common.models.generators import FeatureMeans
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.server.methods.fedmd_cg import FedMdCgServer
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.context import ServerContext
from tests.support.facts import make_facts

Numbers = Sequence[float]


def tiny_model(extractor: float, classifier: Numbers, means: Numbers) -> Model:
    features = nn.Sequential(nn.Flatten(), nn.Linear(1, 1, bias=False))
    model = Model(features, nn.Linear(1, len(classifier), bias=False), 1)
    model.add_module("generator", FeatureMeans(4, len(means), 1))
    from_arrays(model, [column(extractor), column(*classifier), column(*means)])
    return model


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


def tiny_config(line: str, **settings: Any) -> RunConfig:
    given = {"local_steps": 1, "batch_size": 1, "lr": 0.5, "momentum": 0.0, "rounds": 2}
    return configure({"methods": line, "weight_decay": 0.0, **given, **settings})


def tiny_round(
    folder: Path,
    config: RunConfig,
    model: Model,
    samples: Sequence[tuple[float, int]],
    number: int = 2,
    sent: Sequence[np.ndarray] | None = None,
    shares: Numbers = (1.0, 0.0),
) -> LocalRound:
    """A client's round on these (pixel, label); `sent` is the server's pair, by default its own."""
    run = make_facts(config, model)
    pixels, labels = (list(values) for values in zip(*samples, strict=True))
    images = torch.tensor(pixels).view(-1, 1, 1, 1)
    counts = np.bincount(labels, minlength=2).astype(np.int64)
    return LocalRound(
        number=number,
        partition=0,
        run=run,
        model=model,
        data=LocalData(Resident(images, torch.tensor(labels)), (0.5,), (0.5,), counts),
        received={SHARES: [np.array(shares)]},
        memory=Memory(folder, number),
        lr=config.lr,
        broadcast=list(sent or to_arrays(model)[1:]),
    )


def tiny_server(line: str, model: Model, **settings: Any) -> FedMdCgServer:
    config = tiny_config(line, **settings)
    run = make_facts(config, model)
    (method,) = config.method_list
    context = ServerContext(run, SimpleNamespace(model=model))  # type: ignore[arg-type]
    average = Average(to_arrays(model)[1:], weighting=config.weighs)
    return FedMdCgServer(average, method, context)  # type: ignore[arg-type]


def tiny_reply(classifier: Numbers, means: Numbers, counts: Numbers, examples: int = 1) -> FitRes:
    arrays = [column(*classifier), column(*means), np.array(counts, np.float64)]
    layout = {"layout": "shared:2 label-counts:1"}
    return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), examples, layout)
