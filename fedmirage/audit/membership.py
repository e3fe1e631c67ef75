"""Membership: can whoever has the global model tell which samples it was trained on?

Two attacks score every sample of a pool, half of which the run trains on:

    loss    A sample with a small loss is taken for a member (Yeom, Giacomelli, Fredrikson, Jha:
            Privacy risk in machine learning, CSF 2018). It needs nothing but the model.
    ratio   The likelihood ratio attack, LiRA, in its online form (Carlini et al., IEEE S&P 2022).
            The attacker repeats the run with other seeds on other halves: these are its shadow
            models. Of any sample, half of them have trained on it and half have not. Their
            confidences in it give two normal distributions, and the score is the ratio of their
            densities at the confidence of the attacked model.

The confidence is log(p / (1 - p)), where p is the probability of the true class. It orders samples
as the loss does, and is closer to normally distributed. Shadow models are whole runs with the
settings of the attacked one, so they are distilled, averaged and protected as it is.
Differs from the paper: both deviations are those of all samples together, which the paper advises
where there are few shadow models; the means are each sample's own.
Differs from the paper: a model is asked about a sample once, and not also about augmented forms.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.audit.attack import PICTURES, AuditFinding, AuditPicture, AuditTable
from fedmirage.audit.attacks_on_outcomes import Membership
from fedmirage.audit.halves import Halves, read_halves, write_split
from fedmirage.audit.overheard import Overheard
from fedmirage.audit.roc import LOW, Roc, draw_rocs, make_roc
from fedmirage.common.settings.config import RunConfig, configure
from fedmirage.runtimes.inprocess import run_in_process
from fedmirage.trained.model import load_trained

FLOOR = 1e-6  # of a deviation: shadow models that agree in every bit must not divide by zero
MODEL, CURVES = "model.safetensors", "roc.png"
NAMES = {"loss": "small loss", "ratio": "likelihood ratio"}


@dataclass(frozen=True)
class Judged:
    """What both attacks found out about a global model."""

    members: int
    others: int
    accuracy: tuple[float, float]  # of the model on members and on others
    curves: dict[str, Roc]  # by the name of the attack


def carry_out(params: Membership, seen: Overheard) -> AuditFinding:
    """Train the shadow models, and attack the global model of the run."""
    halves = read_halves(seen.config, seen.run.dataset)
    drawn, answers = [halves], [ask_model(seen, seen.config, halves.pool)]
    for number in range(params.shadows):
        seen.tell(f"training shadow model {number + 1} of {params.shadows}")
        opposite = number % 2
        half = drawn[-1].swapped if opposite else halves.draw_again(seen.config.seed, number)
        config = plan_shadow(seen, half, number)
        run_in_process(config)
        drawn.append(half)
        answers.append(ask_model(seen, config, halves.pool))
    labels = torch.from_numpy(np.asarray(seen.run.dataset.train.labels[halves.pool]))
    inside = torch.from_numpy(np.stack([half.inside for half in drawn]))
    return report(params, judge(torch.stack(answers), labels, inside), seen)


def plan_shadow(seen: Overheard, half: Halves, number: int) -> RunConfig:
    """Plan a run like the attacked one, with another seed and on another half of the data."""
    seed, config = seen.config.seed + 1 + number, seen.config
    folder = seen.folder / PICTURES / f"shadow-{number:02d}"
    file = folder.with_suffix(".json")
    line = write_split(file, half.trained, seen.run.dataset, seed)
    own = {"partition": line, "seed": seed, "out": str(folder), "save_images": False}
    return configure(config.flat(), {**own, "eval_every": config.rounds})


def ask_model(seen: Overheard, config: RunConfig, pool: np.ndarray) -> Tensor:
    """Let the global model of a run answer for every sample of the pool: (samples, classes)."""
    model = load_trained(Path(config.out) / MODEL, own_network(config))
    return model.compute_logits(seen.run.dataset.train.images[pool])


def own_network(config: RunConfig) -> str:
    """Return the line of somebody's own network, which no file has imported; else nothing."""
    return config.model if ":" in config.model_params.name else ""


def judge(answers: Tensor, labels: Tensor, inside: Tensor) -> Judged:
    """Attack the first model (models, samples, classes); the others are its shadow models.

    `inside` says which model has trained on which sample (models, samples).
    """
    confidences = torch.stack([scale_confidences(logits, labels) for logits in answers])
    scores = {
        "loss": confidences[0],
        "ratio": compute_ratios(confidences[0], confidences[1:], inside[1:]),
    }
    members, right = inside[0], (answers[0].argmax(1) == labels).double()
    return Judged(
        int(members.sum()),
        int((~members).sum()),
        (float(right[members].mean()), float(right[~members].mean())),
        {name: make_roc(score[members], score[~members]) for name, score in scores.items()},
    )


def scale_confidences(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute log(p / (1 - p)) of the true classes from logits (samples, classes)."""
    own = F.one_hot(labels, logits.shape[1]).bool()
    others = logits.masked_fill(own, -math.inf).logsumexp(1)  # (samples,)
    return logits[own] - others


def compute_ratios(confidences: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """Compute the logarithm of LiRA's likelihood ratio for each sample, in its online form.

    `shadows` has the confidences of the shadow models (models, samples), and `inside` says which of
    them have trained on which sample.
    """
    logarithms = []
    for chosen in (inside, ~inside):
        count = chosen.sum(0)  # (samples,)
        mean = (shadows * chosen).sum(0) / count
        spread = ((shadows - mean) ** 2 * chosen).sum() / (chosen.sum() - len(count)).clamp(min=1)
        deviation = spread.sqrt().clamp(min=FLOOR)
        logarithms.append(-(((confidences - mean) / deviation) ** 2) / 2 - deviation.log())
    return logarithms[0] - logarithms[1]


def report(params: Membership, judged: Judged, seen: Overheard) -> AuditFinding:
    """Say what was found."""
    curves, (known, unknown) = judged.curves, judged.accuracy
    best = max(curves, key=lambda name: curves[name].area)
    area, margin = curves[best].area, curves[best].margin
    told = "members can be told from others" if area - margin > 0.5 else "no better than guessing"
    says = [
        f"The better attack, by {NAMES[best]}, has an area of {area:.3f} ± {margin:.3f} under its"
        f" curve, where guessing has 0.5: {told}.",
        f"The global model is right on {100 * known:.1f} % of its {judged.members} members and"
        f" on {100 * unknown:.1f} % of {judged.others} others.",
    ]
    head = ("attack", "area", "±", *(f"members found at {100 * share:g} % false" for share in LOW))
    rows = [
        (NAMES[name], f"{roc.area:.3f}", f"{roc.margin:.3f}", *map(show_share, find_all(roc)))
        for name, roc in curves.items()
    ]
    note = f"Each sample in half of {params.shadows} shadow models; ± is the 95 % interval."
    draw_rocs({NAMES[name]: roc for name, roc in curves.items()}, seen.picture(CURVES))
    caption = "Share of members found by share of others taken for members, on logarithmic axes."
    return AuditFinding(
        says,
        [AuditTable("Membership", head, rows, note)],
        [AuditPicture(CURVES, caption)],
        {
            "members": judged.members,
            "others": judged.others,
            "shadows": params.shadows,
            "accuracy": {"members": known, "others": unknown},
            **{name: collect_numbers(roc) for name, roc in curves.items()},
        },
    )


def find_all(roc: Roc) -> list[float | None]:
    """Return the shares of members found at few false positives."""
    return [roc.found_at(share) for share in LOW]


def show_share(share: float | None) -> str | None:
    """Write a share in per cent."""
    return None if share is None else f"{100 * share:.2f} %"


def collect_numbers(roc: Roc) -> dict[str, object]:
    """Collect the numbers of a curve, with points enough to draw it again."""
    found = {f"found_at_{share:g}": one for share, one in zip(LOW, find_all(roc), strict=True)}
    return {"auc": roc.area, "margin": roc.margin, **found, "curve": roc.thin()}
