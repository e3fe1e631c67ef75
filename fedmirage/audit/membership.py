"""Membership: can whoever has the global model tell which samples it was trained on?

Two attacks score every sample of a pool, half of which the audited run trains on:

    loss    A sample with a small loss is taken for a member (Yeom, Giacomelli, Fredrikson, Jha:
            Privacy risk in machine learning, CSF 2018). It needs nothing but the model.
    ratio   The likelihood ratio attack, LiRA, in its online form (Carlini et al., IEEE S&P 2022).
            The attacker repeats the run with other seeds and other halves: these are its shadow
            models. For each sample, half of them have trained on it and half have not. Their
            confidences in it give two normal distributions, and the score is the ratio of their
            densities at the audited model's confidence.

The confidence is log(p / (1 - p)), where p is the probability of the true class; it is close to
normally distributed, as p and the loss are not. It orders samples as the loss does.
Shadow models are whole runs with the settings of the audited one, so they are trained, averaged and
protected as it is. They come in pairs that train on opposite halves.
Differs from the paper: both deviations are those of all samples together, which the paper advises
where there are few shadow models; the means are each sample's own.
Differs from the paper: a sample is asked for once, and not also in augmented forms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor

from fedmirage.audit.halves import Halves, draw_halves, find_problems
from fedmirage.audit.roc import LOW, Roc, make_roc
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.named import divide
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.comparison.plan import Job
from fedmirage.comparison.rows import Row
from fedmirage.comparison.runs import carry_out, share_cores
from fedmirage.trained.model import load_trained

SHADOWS = 16
FLOOR = 1e-6  # of a deviation, so that shadow models that agree in every bit divide by no zero
MODEL = "model.safetensors"


@dataclass(frozen=True)
class Planned:
    """A run of a membership attack, and the half that it trains on."""

    job: Job
    halves: Halves


@dataclass(frozen=True)
class Membership:
    """What both attacks found out about the global model of one methods line."""

    methods: str
    members: int
    others: int
    shadows: int
    accuracy: tuple[float, float]  # of the model on members and on others
    loss: Roc
    ratio: Roc


def scale_confidences(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute log(p / (1 - p)) of the true classes from logits (samples, classes)."""
    own = F.one_hot(labels, logits.shape[1]).bool()
    others = logits.masked_fill(own, -math.inf).logsumexp(1)  # (samples,)
    return logits[own] - others


def compute_ratios(confidences: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """Compute the logarithm of LiRA's likelihood ratio for each sample, in its online form.

    `shadows` has the shadow models' confidences (models, samples), and `inside` which of them
    trained on which sample.
    """
    logarithms = []
    for chosen in (inside, ~inside):
        count = chosen.sum(0)  # (samples,)
        mean = (shadows * chosen).sum(0) / count
        spread = ((shadows - mean) ** 2 * chosen).sum() / (chosen.sum() - len(count)).clamp(min=1)
        deviation = spread.sqrt().clamp(min=FLOOR)
        logarithms.append(-(((confidences - mean) / deviation) ** 2) / 2 - deviation.log())
    return logarithms[0] - logarithms[1]


def find_membership_problems(config: RunConfig, dataset: DataSet, shadows: int) -> list[str]:
    """Say why membership in these runs cannot be attacked; nothing if it can."""
    found = []
    if shadows < 2 or shadows % 2:
        found.append(
            f"shadows={shadows}: shadow models come in pairs that train on opposite halves; write"
            f" an even number, e.g. {SHADOWS}"
        )
    if not config.shares_all:
        found.append(
            f"audit: membership is read off the global model, and methods={config.methods!r} leaves"
            " the clients with models of their own; choose a method that shares the whole model"
        )
    if dataset.task != "single-label":
        found.append(
            f"audit: membership is read off the probability of the true class, and the samples of"
            f" {dataset.name} have several labels; choose a set with one label per sample"
        )
    return found + find_problems(divide(config, dataset))


def plan_membership(config: RunConfig, dataset: DataSet, shadows: int = SHADOWS) -> list[Planned]:
    """Plan the audited run and its shadow runs, each in a folder of its own under `out`."""
    whole, folder = divide(config, dataset), Path(config.out)
    drawn = [("target", draw_halves(whole, config.seed))]
    for pair in range(shadows // 2):
        half = draw_halves(whole, config.seed, pair)
        drawn += [
            (f"shadow-{2 * pair:02d}", half),
            (f"shadow-{2 * pair + 1:02d}", half.opposite(whole)),
        ]
    planned = []
    for number, (name, half) in enumerate(drawn):
        seed, out = config.seed + number, folder / name
        own = {
            "partition": half.write(folder / f"{name}.json", dataset, seed),
            "seed": seed,
            "out": str(out),
            "eval_every": config.rounds,
        }
        planned.append(Planned(Job(Row(config.methods), configure(config.flat(), own)), half))
    return planned


def attack_membership(
    config: RunConfig, console: Console, shadows: int = SHADOWS, verbose: bool = False
) -> Membership:
    """Do all runs, or what is left of them, and attack the global model of the first."""
    dataset = load(config.dataset, config.data_dir or None, config.download)
    planned = plan_membership(config, dataset, shadows)
    jobs = [one.job for one in planned]
    means = share_cores(config, "inprocess", 0, len(jobs), verbose)
    failed = carry_out(jobs, means, Path(config.out), console)
    for folder, reason in failed.items():
        raise FedmirageError(f"the run in {folder} failed: {reason}")
    return judge(planned, dataset)


def judge(planned: Sequence[Planned], dataset: DataSet) -> Membership:
    """Attack the model of the first of these runs; the others are its shadow runs."""
    target, *shadows = planned
    labels = torch.from_numpy(np.asarray(dataset.train.labels[target.halves.pool]))
    answers = [ask_model(one, dataset) for one in planned]  # (samples, classes) each
    confidences = torch.stack([scale_confidences(logits, labels) for logits in answers])
    inside = torch.from_numpy(np.stack([one.halves.inside for one in planned]))
    right, members = answers[0].argmax(1) == labels, inside[0]
    ratios = compute_ratios(confidences[0], confidences[1:], inside[1:])
    return Membership(
        methods=target.job.config.methods,
        members=int(members.sum()),
        others=int((~members).sum()),
        shadows=len(shadows),
        accuracy=(float(right[members].double().mean()), float(right[~members].double().mean())),
        loss=make_roc(confidences[0][members], confidences[0][~members]),
        ratio=make_roc(ratios[members], ratios[~members]),
    )


def ask_model(planned: Planned, dataset: DataSet) -> Tensor:
    """Let the global model of a run answer for every sample of the pool."""
    model = load_trained(planned.job.folder / MODEL, dataset=planned.job.config.dataset)
    images = torch.from_numpy(np.asarray(dataset.train.images[planned.halves.pool]))
    return model.compute_logits(model.facts.normalise(images))


def describe_membership(found: Membership) -> dict[str, object]:
    """Collect the numbers of a result, for tables and files."""
    rows = {}
    for name, roc in (("loss", found.loss), ("ratio", found.ratio)):
        rows[name] = {
            "auc": roc.area,
            "margin": roc.margin,
            **{f"found_at_{share:g}": roc.found_at(share) for share in LOW},
        }
    return {
        "methods": found.methods,
        "members": found.members,
        "others": found.others,
        "shadows": found.shadows,
        "accuracy_members": found.accuracy[0],
        "accuracy_others": found.accuracy[1],
        **rows,
    }
