"""Shows what DynaFed's synthetic set is worth, for runs with save-images.

    python -m experiments.studies.dynafed RUN [RUN ...]

writes RUN/dynafed/diagnostics.json and draws it as RUN/dynafed/diagnostics.png:
- how well training on the set, on noise and on real images follows the path (figure 6 left);
- the accuracy of a network trained on nothing but the set (figure 6 right);
- the distance from the gradient on the set to the gradient on all data (theorem 1's delta);
- for runs with keep-models=all in a simulation, the loss on single clients' data through local
  training, averaging and repair (figure 3).

`fedmirage report RUN` shows the images over the iterations.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from pandas import DataFrame, Series
from torch import Tensor, nn

from experiments.studies.command import Runs, run_study
from fedmirage.common.data.batches import Resident, batches, normalise
from fedmirage.common.data.loading import load as load_data
from fedmirage.common.data.partitions.named import split
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.diffaugment import diff_augment
from fedmirage.common.learning.losses import cosine_distance, soft_cross_entropy
from fedmirage.common.learning.task import evaluate
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.models.base import Model
from fedmirage.common.models.factory import build
from fedmirage.common.run import blueprint, task_of
from fedmirage.common.seeds import derive, torch_generator
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import Manifest, from_arrays
from fedmirage.records.lines import read_config, read_record
from fedmirage.server.methods.dynafed.student import Student
from fedmirage.server.methods.dynafed.synthesis import Learned, inner_step, plans
from fedmirage.server.strategy.average import shares_of, weighted_mean

ONE_HOT = 20.0  # a logit that makes a soft label a hard one
# Epochs of the recipe in the paper's code, and the epoch at which the rate falls to a tenth.
SCRATCH_EPOCHS, SCRATCH_DROP = 501, 251


@dataclass
class Made:
    """A synthesis that a run recorded, and what is needed to judge it."""

    folder: Path
    config: RunConfig
    params: DynaFed
    dataset: DataSet
    content: dict[str, np.ndarray]  # images, labels, rate, losses, images@ITERATION, path@NUMBER
    segment: int
    round: int

    @classmethod
    def of(cls, folder: Path) -> "Made":
        """Read the last synthesis of a run."""
        files = sorted((folder / "dynafed").glob("round-*.safetensors"))
        if not files:
            raise FedmirageError(
                f"{folder} holds no synthetic set; run dynafed with --save-images past its first"
                " `length` rounds"
            )
        config = read_config(folder)
        (params,) = [method for method in config.method_list if isinstance(method, DynaFed)]
        content, about = read_arrays(files[-1])
        dataset = load_data(config.dataset, config.data_dir or None)
        return cls(folder, config, params, dataset, content, about["segment"], about["round"])

    @property
    def classes(self) -> int:
        """The number of real classes."""
        return len(self.dataset.classes)

    def model(self, seed: int = 0) -> Model:
        """Build a new network for the real classes."""
        seed = derive(seed, "dynafed-diagnostics")
        return build(self.config.model_params, self.dataset.shape, self.classes, 0, seed)

    @property
    def student(self) -> Student:
        """The network as a function of a flat vector."""
        return Student(self.model(), self.classes)

    @property
    def path(self) -> list[Tensor]:
        """w^0, w^1, ... of the newest path that has a segment."""
        paths = [self.content[name] for name in sorted(self.content) if name.startswith("path@")]
        long = next(path for path in reversed(paths) if len(path) > self.segment)
        return list(torch.tensor(long))

    def sets(self) -> dict[str, Learned]:
        """Return the synthetic set, noise with its labels, and as many labelled real images."""
        images, labels, rate = (
            torch.tensor(self.content[name]) for name in ("images", "labels", "rate")
        )
        noise = torch.tensor(self.content["images@000000"])
        generator = torch_generator(self.config.seed, "dynafed-real-subset")
        chosen = torch.randperm(len(self.dataset.train), generator=generator)[: len(images)].numpy()
        real, truth = self.real(np.sort(chosen))
        hard = ONE_HOT * torch.nn.functional.one_hot(truth, self.classes).float()
        return {
            "synthetic": Learned(images, labels, rate),
            "noise": Learned(noise, labels, rate),
            "real": Learned(real, hard, rate),
        }

    def kept_model(self, number: int) -> Path:
        """Where keep-models=all left the model of a round."""
        return self.folder / "models" / f"round-{number:05d}.safetensors"

    def real(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return normalised training images and their classes."""
        resident = Resident.load(self.dataset.train, indices)
        return normalise(resident.images, self.dataset.mean, self.dataset.std), resident.labels


def following(made: Made) -> dict[str, list[float]]:
    """Compute figure 6 left: the cosine distance to w^{t+s} after s' steps from w^t on each set.

    For comparison, it also has the distance of w^t itself.
    """
    student, path = made.student, made.path
    starts = range(len(path) - made.segment)
    distances = {
        "no training": [float(cosine_distance(path[t], path[t + made.segment])) for t in starts]
    }
    for name, learned in made.sets().items():
        distances[name] = []
        for t in starts:
            weights = path[t]
            generator = torch_generator(made.config.seed, "dynafed-following", t)
            for plan in plans(made.params, len(learned.images), generator):
                start = weights.detach().requires_grad_()
                weights = inner_step(student, start, learned, plan, create_graph=False).detach()
            distances[name].append(float(cosine_distance(weights, path[t + made.segment])))
    return distances


def from_scratch(made: Made, epochs: int = SCRATCH_EPOCHS) -> dict[str, float]:
    """Compute figure 6 right: the test accuracy of a new network trained on each set alone.

    The recipe is that of the paper's code.
    """
    task = task_of(made.config, made.dataset)
    test = Resident.load(made.dataset.test, np.arange(len(made.dataset.test)))
    scores = {}
    for name, learned in made.sets().items():
        model, generator = made.model(), torch_generator(made.config.seed, "dynafed-scratch", name)
        train_from_scratch(model, learned, epochs, generator)
        batches = test.in_order(made.dataset.mean, made.dataset.std)
        scores[name] = evaluate(model, batches, task)["accuracy"]
    return scores


def train_from_scratch(
    model: nn.Module, learned: Learned, epochs: int, generator: torch.Generator
) -> None:
    """Train by SGD with the learned rate, and a tenth of it in the second half.

    Momentum is 0.9, weight decay 5e-4, the batch size 256; images are augmented by DiffAugment.
    """
    rate = float(learned.rate)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    for epoch in range(epochs):
        late = epoch >= epochs * SCRATCH_DROP / SCRATCH_EPOCHS
        optimizer.param_groups[0]["lr"] = rate / 10 if late else rate
        for index in batches(len(learned.images), generator, 256, epochs=1):
            answers = model(diff_augment(learned.images[index], generator))
            loss = soft_cross_entropy(answers, learned.labels[index])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def gradient_distance(made: Made, samples: int = 10_000) -> dict[str, list[dict[str, float]]]:
    """Compute theorem 1's delta at each checkpoint for each set S, with epsilon = 0.

    delta = ||grad L(w, S) - grad L(w, D)|| / ||grad L(w, D)||. There is also the cosine of the two
    gradients, which does not depend on their scale. D is the training data, or a random part of
    `samples` of them.
    """
    order = torch.randperm(
        len(made.dataset.train), generator=torch_generator(made.config.seed, "dynafed-gradient")
    )
    images, truth = made.real(np.sort(order[:samples].numpy()))
    student, found = made.student, {name: [] for name in ("synthetic", "noise", "real")}  # type: ignore[var-annotated]
    for checkpoint in made.path:
        weights = checkpoint.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(student(weights, images), truth)
        (whole,) = torch.autograd.grad(loss, weights)
        for name, learned in made.sets().items():
            soft = soft_cross_entropy(student(weights, learned.images), learned.labels)
            (part,) = torch.autograd.grad(made.classes * soft, weights)
            delta = float((part - whole).norm() / whole.norm())
            found[name].append({"delta": delta, "cosine": 1 - float(cosine_distance(part, whole))})
    return found


def client_losses(made: Made, clients: int = 3, rounds: int = 5) -> list[dict[str, Any]]:
    """Compute figure 3: losses on some clients' own data in the last rounds of a simulation.

    The models are the one sent out, the client's own, the average and the repaired one; a client
    that was not drawn has no own model. Without the files of keep-models=all, there is nothing.
    """
    config, data = made.config, made.dataset
    lines = read_record(made.folder)
    memory = made.folder / "memory" / lines[0]["resolved"]["token"]
    late = [line for line in lines if line["kind"] == "round" and line["round"] > made.round]
    kept = [line for line in late[-rounds:] if made.kept_model(line["round"] - 1).exists()]
    if not kept or not memory.exists():
        return []
    parts = split(config.partition_params, data.train, made.classes, config.clients, config.seed)
    drawn = [client["partition"] for line in kept for client in line["clients"]]
    visits = np.bincount(drawn, minlength=config.clients)
    chosen = np.argsort(-visits, kind="stable")[:clients].tolist()
    model, task = blueprint(config, data.shape, made.classes), task_of(config, data)
    found: list[dict[str, Any]] = []
    for line in kept:
        for stage, partition, arrays in stages(made, model, memory, line, chosen):
            from_arrays(model, arrays)
            own = Resident.load(data.train, parts[partition]).in_order(data.mean, data.std)
            loss = evaluate(model, own, task, made.classes)["loss"]
            about = {"round": line["round"], "client": partition, "stage": stage}
            found.append({**about, "loss": loss})
    return found


def stages(
    made: Made, model: Model, memory: Path, line: dict[str, Any], chosen: Sequence[int]
) -> Iterator[tuple[str, int, Any]]:
    """Yield (stage, client, weights) for one round."""
    number, entries = line["round"], Manifest.of(model).names
    before, after = (
        [files[name] for name in entries]
        for files in (read_arrays(made.kept_model(one))[0] for one in (number - 1, number))
    )
    folders = {one["partition"]: f"client-{one['partition']:05d}" for one in line["clients"]}
    own = {
        client: Memory(memory / folder, number + 1).get(LOCAL_MODEL)
        for client, folder in folders.items()
    }
    weights = shares_of([client["examples"] for client in line["clients"]], made.config.weighs)
    models = [arrays for arrays in own.values() if arrays is not None]
    if weights is None or len(models) < len(own):
        return
    average = weighted_mean(models, weights, [array.dtype for array in models[0]])
    for client in chosen:
        named = {"sent out": before, "own": own.get(client), "average": average, "repaired": after}
        yield from ((stage, client, one) for stage, one in named.items() if one is not None)


def diagnose(made: Made, epochs: int = SCRATCH_EPOCHS) -> dict[str, Any]:
    """Compute all metrics of one run."""
    return {
        "round": made.round,
        "matching_loss": float(np.mean(made.content["losses"][-100:])),
        "rate": float(made.content["rate"]),
        "following": following(made),
        "from_scratch": from_scratch(made, epochs),
        "gradient": gradient_distance(made),
        "clients": client_losses(made),
    }


def draw(metrics: Mapping[str, Any], path: Path) -> Path:
    """Draw everything that was computed for one run."""
    figure = Figure(figsize=(16, 8), layout="constrained")
    following, scratch, delta, clients = figure.subplots(2, 2).flat
    DataFrame(metrics["following"]).plot(ax=following, marker=".")
    following.set(xlabel="start t", ylabel="cosine distance to $w^{t+s}$", title="figure 6 left")
    (100 * Series(metrics["from_scratch"])).plot.bar(ax=scratch, rot=0)
    scratch.set(ylabel="test accuracy, %", title="a new network trained on the set alone")
    deltas = {name: [one["delta"] for one in found] for name, found in metrics["gradient"].items()}
    DataFrame(deltas).plot(ax=delta, marker=".", logy=True)
    delta.set(xlabel="checkpoint", ylabel=r"$\delta$", title="distance to the gradient on all data")
    if metrics["clients"]:
        losses = DataFrame(metrics["clients"])
        order = losses[["round", "stage"]].drop_duplicates()
        by_stage = losses.pivot(index=["round", "stage"], columns="client", values="loss")
        by_stage.reindex(order.itertuples(index=False, name=None)).plot(
            ax=clients, marker=".", logy=True, rot=90
        )
    clients.set(ylabel="loss on the client's own data", title="figure 3")
    figure.savefig(path, dpi=110)
    return path


def report(runs: Runs) -> None:
    """Show what DynaFed's synthetic set is worth, for runs with --save-images."""
    for folder in runs:
        metrics = diagnose(Made.of(folder))
        path = folder / "dynafed" / "diagnostics.json"
        path.write_text(json.dumps(metrics, indent=1))
        print(draw(metrics, path.with_suffix(".png")))


if __name__ == "__main__":
    run_study(report)
