"""Shows what DynaFed's synthetic set is worth: figures and pictures of runs with save-images.

    python -m experiments.studies.dynafed RUN [RUN ...]

writes RUN/dynafed/diagnostics.json and these pictures into the same folder:
- the images over the iterations, the learned labels, the matching loss;
- how well training on the set, on noise and on real images follows the path (figure 6 left);
- the accuracy of a network trained on nothing but the set (figure 6 right; for all given runs, in
  the folder of the first one);
- the distance from the gradient on the set to the gradient on all data (theorem 1's delta);
- for runs with keep-models=all in a simulation, the loss on single clients' data through local
  training, averaging and repair (figure 3).
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedmirage.common.data import load as load_data
from fedmirage.common.data.batches import Resident, batches, normalise
from fedmirage.common.data.partitions import split
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.diffaugment import diff_augment
from fedmirage.common.learning.losses import cosine_distance, soft_cross_entropy
from fedmirage.common.learning.task import evaluate
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.models import Model, build
from fedmirage.common.run import blueprint, task_of
from fedmirage.common.seeds import derive, torch_generator
from fedmirage.common.settings.config import RunConfig, configure, defaults
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import Manifest, from_arrays
from fedmirage.server.methods.dynafed.student import Student
from fedmirage.server.methods.dynafed.students import make_student
from fedmirage.server.methods.dynafed.synthesis import Learned, inner_step, plans
from fedmirage.server.record.results import FILE, read
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
        (settings,) = [line for line in read(folder / FILE) if line["kind"] == "config"]
        config = configure({key: value for key, value in settings.items() if key in defaults()})
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
        return build(
            self.config.model_params,
            self.dataset.shape,
            self.classes,
            0,
            derive(seed, "dynafed-diagnostics"),
        )

    @property
    def student(self) -> Student:
        """The network as a function of a flat vector."""
        return make_student(self.model(), self.classes)

    @property
    def path(self) -> list[Tensor]:
        """w^0, w^1, ... of the newest path that has a segment."""
        paths = [self.content[name] for name in sorted(self.content) if name.startswith("path@")]
        return list(
            torch.tensor(next(path for path in reversed(paths) if len(path) > self.segment))
        )

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
            for plan in plans(
                made.params,
                len(learned.images),
                torch_generator(made.config.seed, "dynafed-following", t),
            ):
                weights = inner_step(
                    student, weights.detach().requires_grad_(), learned, plan, create_graph=False
                ).detach()
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
        model = made.model()
        train_from_scratch(
            model, learned, epochs, torch_generator(made.config.seed, "dynafed-scratch", name)
        )
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
        optimizer.param_groups[0]["lr"] = (
            rate if epoch < epochs * SCRATCH_DROP / SCRATCH_EPOCHS else rate / 10
        )
        for index in batches(len(learned.images), generator, 256, epochs=1):
            loss = soft_cross_entropy(
                model(diff_augment(learned.images[index], generator)), learned.labels[index]
            )
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
        (whole,) = torch.autograd.grad(
            torch.nn.functional.cross_entropy(student(weights, images), truth), weights
        )
        for name, learned in made.sets().items():
            loss = made.classes * soft_cross_entropy(
                student(weights, learned.images), learned.labels
            )
            (part,) = torch.autograd.grad(loss, weights)
            delta = float((part - whole).norm() / whole.norm())
            found[name].append({"delta": delta, "cosine": 1 - float(cosine_distance(part, whole))})
    return found


def client_losses(made: Made, clients: int = 3, rounds: int = 5) -> list[dict[str, Any]]:
    """Compute figure 3: losses on some clients' own data in the last rounds of a simulation.

    The models are the one sent out, the client's own, the average and the repaired one; a client
    that was not drawn has no own model. Without the files of keep-models=all, there is nothing.
    """
    (settings,) = [line for line in read(made.folder / FILE) if line["kind"] == "config"]
    memory = made.folder / "memory" / settings["resolved"]["token"]
    lines = [
        line
        for line in read(made.folder / FILE)
        if line["kind"] == "round" and line["round"] > made.round
    ][-rounds:]
    kept = [
        line
        for line in lines
        if (made.folder / "models" / f"round-{line['round'] - 1:05d}.safetensors").exists()
    ]
    if not kept or not memory.exists():
        return []
    parts = split(
        made.config.partition_params,
        made.dataset.train,
        made.classes,
        made.config.clients,
        made.config.seed,
    )
    visits = np.bincount(
        [client["partition"] for line in kept for client in line["clients"]],
        minlength=made.config.clients,
    )
    chosen = np.argsort(-visits, kind="stable")[:clients].tolist()
    model = blueprint(made.config, made.dataset.shape, made.classes)
    found: list[dict[str, Any]] = []
    for line in kept:
        for stage, partition, arrays in stages(made, model, memory, line, chosen):
            from_arrays(model, arrays)
            own = Resident.load(made.dataset.train, parts[partition])
            task = task_of(made.config, made.dataset)
            batches = own.in_order(made.dataset.mean, made.dataset.std)
            score = evaluate(model, batches, task, made.classes)
            found.append(
                {"round": line["round"], "client": partition, "stage": stage, "loss": score["loss"]}
            )
    return found


def stages(
    made: Made, model: Model, memory: Path, line: dict[str, Any], chosen: Sequence[int]
) -> list[tuple[str, int, Any]]:
    """Return (stage, client, weights) for one round."""
    number = line["round"]
    before, after = (
        read_arrays(made.folder / "models" / f"round-{one:05d}.safetensors")[0]
        for one in (number - 1, number)
    )
    entries = Manifest.of(model).names
    own = {
        client["partition"]: (
            Memory(memory / f"client-{client['partition']:05d}", number + 1).get(LOCAL_MODEL)
        )
        for client in line["clients"]
    }
    weights = shares_of([client["examples"] for client in line["clients"]], made.config.weighs)
    models = [arrays for arrays in own.values() if arrays is not None]
    if weights is None or len(models) < len(own):
        return []
    average = weighted_mean(models, weights, [array.dtype for array in models[0]])
    found: list[tuple[str, int, Any]] = []
    for client in chosen:
        found.append(("sent out", client, [before[name] for name in entries]))
        if client in own:
            found.append(("own", client, own[client]))
        found += [
            ("average", client, average),
            ("repaired", client, [after[name] for name in entries]),
        ]
    return found


def diagnose(made: Made, epochs: int = SCRATCH_EPOCHS) -> dict[str, Any]:
    """Compute all figures of one run."""
    return {
        "round": made.round,
        "matching_loss": float(np.mean(made.content["losses"][-100:])),
        "rate": float(made.content["rate"]),
        "following": following(made),
        "from_scratch": from_scratch(made, epochs),
        "gradient": gradient_distance(made),
        "clients": client_losses(made),
    }


def main() -> None:
    """Write figures and pictures of the runs on the command line."""
    from experiments.studies.dynafed import pictures

    parser = argparse.ArgumentParser(
        prog="python -m experiments.studies.dynafed", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="the folder of a run with --save-images",
    )
    parser.add_argument(
        "--epochs", type=int, default=SCRATCH_EPOCHS, help="epochs of the training from scratch"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)  # for small products, threads would mostly wait for each other
    found: dict[str, dict[str, Any]] = {}
    try:
        for folder in given.runs:
            made = Made.of(folder)
            figures = found[
                f"{folder.name}: {made.config.partition}, {made.config.local_epochs} epochs"
            ] = diagnose(made, given.epochs)
            (folder / "dynafed" / "diagnostics.json").write_text(json.dumps(figures, indent=1))
            for path in pictures.draw(made, figures, folder / "dynafed"):
                print(path)
        print(pictures.draw_scratch(found, given.runs[0] / "dynafed" / "from-scratch.png"))
    except FedmirageError as error:
        raise SystemExit(f"error: {error}") from None
