"""A finished run, and the points of its map: features of test samples, and of virtual ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmirage.common.data.batches import normalise
from fedmirage.common.data.loading import load
from fedmirage.common.data.set import DataSet
from fedmirage.common.device import memory_format, place
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import local_models
from fedmirage.common.methods.fedlgd import FedLgd
from fedmirage.common.methods.fedlgd.images import decode
from fedmirage.common.methods.vhl import Vhl
from fedmirage.common.methods.vhl.sets import normalisation
from fedmirage.common.models.base import Model
from fedmirage.common.run import blueprint
from fedmirage.common.seeds import numpy_generator
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.manifest import from_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.records.lines import read_config
from fedmirage.server.record.checkpoint import FILE, read_checkpoint


@dataclass
class FinishedRun:
    """A finished run, read from its folder."""

    folder: Path
    config: RunConfig
    data: DataSet
    model: Model
    # "server", and the last local model of every client whose memory is in the folder
    models: dict[str, Arrays]
    # Virtual images that clients share, as the model sees them, and their labels.
    virtual: tuple[Tensor, np.ndarray] | None

    @classmethod
    def open(cls, folder: Path) -> "FinishedRun":
        """Read a run's folder; features are computed later."""
        config = read_config(folder)
        if config.own_code:
            raise FedmirageError(
                f"its network is {config.model!r}, and showing a folder imports nothing"
            )
        state = read_checkpoint(folder / FILE)
        data = load(config.dataset, config.data_dir or None)
        model = place(
            blueprint(config, data.shape, len(data.classes), opens_file=False),
            torch.device("cpu"),
            config,
        ).eval()
        kept = local_models(folder / "memory" / state.token, state.round)
        models = {
            "server": state.shared,
            **{f"client {number}": arrays for number, (_, arrays) in enumerate(kept)},
        }
        virtual = shared_images(config, data, state.strategy)
        return cls(folder, config, data, model, models, virtual)

    @torch.inference_mode()
    def features(self, name: str, images: Tensor) -> np.ndarray:
        """Return the penultimate features of normalised images under one of the models."""
        from_arrays(self.model, self.models[name])
        prepared = images.contiguous(memory_format=memory_format(self.config))
        return np.asarray(self.model.features(prepared).numpy())

    def test_images(self, chosen: np.ndarray) -> Tensor:
        """Return some normalised test images."""
        images = torch.from_numpy(self.data.test.images[chosen])
        return normalise(images, self.data.mean, self.data.std)


def shared_images(
    config: RunConfig, data: DataSet, state: dict[str, Any]
) -> tuple[Tensor, np.ndarray] | None:
    """Find the images that VHL or FedLGD shares with all clients, and their labels."""
    for method in config.method_list:
        if isinstance(method, Vhl) and len(found := state.get("vhl.virtual", [])) == 2:
            mean, std = normalisation(method, data.mean, data.std)
            return normalise(torch.from_numpy(found[0].copy()), mean, std), found[1]
        if isinstance(method, FedLgd) and (coded := state.get("fedlgd.images")):
            labels = np.repeat(np.arange(len(data.classes)), method.global_per_class)
            return torch.from_numpy(decode(coded)), labels
    return None


MARKERS = "o^sDv*PX"  # one per client, or per domain


@dataclass
class Cloud:
    """The points of one panel; row i of each array describes point i."""

    features: np.ndarray  # (points, width)
    labels: np.ndarray  # (points,)
    owner: np.ndarray  # (points,) position of the point's model in the panel's list of models
    virtual: np.ndarray  # (points,) bool


def cloud(run: FinishedRun, names: list[str], samples: int, seed: int) -> Cloud:
    """Compute the features of the same test samples, and of any virtual ones, for each model."""
    some = numpy_generator(seed, "tsne", 0).permutation(len(run.data.test))[:samples]
    images, labels = run.test_images(some), run.data.test.labels[some]
    parts = [
        points(run.features(name, images), labels, owner, virtual=False)
        for owner, name in enumerate(names)
    ]
    if run.virtual is not None:  # half as many as real ones
        images, labels = run.virtual
        some = numpy_generator(seed, "tsne", 1).permutation(len(labels))[: samples // 2]
        parts += [
            points(run.features(name, images[some]), labels[some], owner, virtual=True)
            for owner, name in enumerate(names)
        ]
    return join(parts)


def domain_cloud(run: FinishedRun, samples: int, seed: int) -> Cloud:
    """Compute the global model's features of test samples of every domain."""
    column = run.data.test.columns.get("domain")
    if column is None:
        raise FedmirageError(
            f"{run.folder} was trained on {run.data.name}, which has no domains; leave --domains"
            " out"
        )
    parts, numbers = [], range(len(domain_names(run)))
    for domain in numbers:
        chosen = numpy_generator(seed, "tsne", domain).permutation(np.flatnonzero(column == domain))
        some = chosen[: samples // len(numbers)]
        found = run.features("server", run.test_images(some))
        parts.append(points(found, run.data.test.labels[some], domain, virtual=False))
    return join(parts)


def domain_names(run: FinishedRun) -> list[str]:
    """The domains that a map shows: as many as there are shapes."""
    return list(run.data.domains[: len(MARKERS)])


def embed(cloud: Cloud, seed: int) -> np.ndarray:
    """Place the points of a cloud on a map, (points, 2), with t-SNE."""
    from sklearn.manifold import TSNE

    perplexity = min(30, (len(cloud.labels) - 1) / 3)
    placed = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(
        cloud.features
    )
    return np.asarray(placed)


def points(features: np.ndarray, labels: np.ndarray, owner: int, virtual: bool) -> Cloud:
    """Make points that have one owner."""
    size = len(labels)
    return Cloud(features, labels, np.full(size, owner), np.full(size, virtual))


def join(parts: list[Cloud]) -> Cloud:
    """Put the points of several clouds into one."""
    return Cloud(
        *(
            np.concatenate([getattr(part, key) for part in parts])
            for key in ("features", "labels", "owner", "virtual")
        )
    )
