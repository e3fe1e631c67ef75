"""FedMD-CG's figure 2.

python -m experiments.studies.fedmd_cg --dataset fashion-mnist --out features.png
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from torch import Tensor

from experiments.studies.command import run_study
from fedmirage.client.methods.fedmd_cg.client import imitate
from fedmirage.client.round import Step
from fedmirage.common.data.batches import Resident, batches, normalise
from fedmirage.common.data.loading import load
from fedmirage.common.data.set import DataSet
from fedmirage.common.learning.optimizers import SGD, Adam
from fedmirage.common.learning.task import TASKS
from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.models.generators import FeatureGenerator, draw_noise
from fedmirage.common.seeds import derive, seed_torch, torch_generator

out = Console()

KINDS = {"no diversity": FedMdCg(diversity_weight=0.0)}
KINDS |= {kind: FedMdCg(diversity=kind) for kind in ("div0", "div1", "div2")}


@dataclass(frozen=True)
class Features:
    """Features that one source gives for the labels of the test samples."""

    values: np.ndarray  # (samples, feature_dim)
    labels: np.ndarray  # (samples,)
    accuracy: float  # how often the teacher's classifier finds the label

    @property
    def spread(self) -> float:
        """The variance inside the classes, summed over the dimensions, mean over the samples."""
        means = {label: self.values[self.labels == label].mean(0) for label in set(self.labels)}
        centres = np.stack([means[label] for label in self.labels])
        return float(np.square(self.values - centres).sum(1).mean())


def features(
    dataset: str = "digits",
    data_dir: str = "",
    steps: int = 2000,
    samples: int = 1000,
    seed: int = 0,
    picture: Annotated[Path, "--out"] = Path("features.png"),
) -> None:
    """Compare generated features with real ones, for each kind of diversity (figure 2).

    A teacher learns the data; then generators learn to imitate its features by eq. 9, each with
    another diversity. All are shown in the plane of the real features' first two principal
    components.

    Options:
        dataset: The paper's figure is for MNIST.
        data_dir: Where to look for it.
        steps: Steps of the teacher and of each generator.
        samples: Test samples, and features per generator.
        seed: Seed of everything.
        picture: The picture.
    """
    found = compare_kinds(load(dataset, data_dir or None), steps, samples, seed)
    table = Table("features", "variance inside classes", "of the real one", "accuracy")
    real = next(iter(found.values())).spread
    for name, one in found.items():
        table.add_row(
            name, f"{one.spread:.3f}", f"{one.spread / real:.3f}", f"{100 * one.accuracy:.2f}"
        )
    out.print(table)
    draw_features(found, picture)
    out.print(f"picture: {picture}")


def compare_kinds(data: DataSet, steps: int, samples: int, seed: int) -> dict[str, Features]:
    """Train a teacher and one generator per kind; return their features, the real ones first."""
    teacher = train_teacher(data, steps, seed)
    some = torch_generator(seed, "study.samples")
    index = torch.randperm(len(data.test), generator=some)[:samples].numpy()
    labels = torch.from_numpy(data.test.labels[index].astype(np.int64))
    images = torch.from_numpy(data.test.images[index])
    with torch.no_grad():
        real = teacher.features(normalise(images, data.mean, data.std))
    found = {"real": describe_run(teacher, real, labels)}
    for kind, params in KINDS.items():
        generator = train_generator(teacher, data, params, steps, seed)
        drawn = torch_generator(seed, "study.noise")
        with torch.no_grad():
            noise = draw_noise(params.noise, len(labels), params.noise_dim, drawn)
            found[kind] = describe_run(teacher, generator(noise, labels), labels)
    return found


def describe_run(teacher: Model, values: Tensor, labels: Tensor) -> Features:
    """Judge features by the teacher's classifier."""
    with torch.no_grad():
        right = (teacher.classifier(values).argmax(1) == labels).double().mean()
    return Features(values.numpy(), labels.numpy(), float(right))


def train_teacher(data: DataSet, steps: int, seed: int) -> Model:
    """Train FedMD-CG's network on all training data."""
    model = build("lenet-bn", data.shape, len(data.classes), seed=derive(seed, "model"))
    optimizer = SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
    for images, labels in draw_batches(data, steps, seed, "study.teacher"):
        optimizer.zero_grad()
        TASKS["single-label"].loss(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval().requires_grad_(False)


def train_generator(
    teacher: Model, data: DataSet, params: FedMdCg, steps: int, seed: int
) -> FeatureGenerator:
    """Train a generator as a client does, by the same terms."""
    classes = len(data.classes)
    with seed_torch(derive(seed, "generator")):
        generator = FeatureGenerator(params.noise_dim, classes, teacher.feature_dim)
    optimizer = Adam(
        generator.parameters(), lr=params.generator_lr, weight_decay=params.adam_weight_decay
    )
    drawn = torch_generator(seed, "study.training-noise")
    local: Any = SimpleNamespace(model=teacher, classes=classes, task=TASKS["single-label"])
    for number, (images, labels) in enumerate(draw_batches(data, steps, seed, "study.generator")):
        terms = imitate(params, generator, drawn, Step(local, number, images, labels))
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return generator.eval()


def draw_batches(data: DataSet, steps: int, seed: int, purpose: str) -> Any:
    """Yield 64 normalised training samples at a time."""
    device = torch.device("cpu")
    samples = Resident.load(data.train, np.arange(len(data.train)), device, torch.contiguous_format)
    for index in batches(len(samples), torch_generator(seed, purpose), 64, steps=steps):
        images, labels = samples.take(index)
        yield normalise(images, data.mean, data.std), labels


def draw_features(found: Mapping[str, Features], path: Path) -> None:
    """Draw one panel per source of features, all in the plane of the first one's components."""
    from sklearn.decomposition import PCA

    plane = PCA(n_components=2).fit(next(iter(found.values())).values)
    figure = Figure(figsize=(3.4 * len(found), 3.6), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False, sharex=True, sharey=True)[0]
    for panel, (name, one) in zip(panels, found.items(), strict=True):
        look = {"c": one.labels % 10, "cmap": "tab10", "vmin": 0, "vmax": 9}
        panel.scatter(*plane.transform(one.values).T, **look, s=6, linewidths=0)
        panel.set(title=name, xticks=[], yticks=[])
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    run_study(features)
