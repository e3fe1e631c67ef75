"""Bootstrap intervals: how much scores vary when samples are drawn anew, with replacement.

Every score but the area under the ROC curve follows from sums over the samples. So each sample
gives a row of numbers, a resample is a row of counts, and one product of matrices gives the sums of
many resamples at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.learning.roc import roc_columns
from fedmirage.common.seeds import numpy_generator

Numbers = npt.NDArray[np.float64]
BINS = 15  # of equal width, between which probabilities are calibrated
PORTION = 50  # resamples at a time
LEVEL = 0.95  # of the intervals
GROUP = "group "  # before the name of a column, in the names of scores


@dataclass(frozen=True)
class Outcomes:
    """What a model made of samples, one row each."""

    single: bool  # whether every sample has one class
    right: Numbers  # (samples,); with several labels per sample, the share of right decisions
    losses: Numbers  # (samples,)
    hits: Numbers  # (samples, classes) of 0 and 1, as are the next two
    answers: Numbers
    true: Numbers
    # (samples, bins): how many probabilities lie in a bin, their sum, how many of them came true
    bins: tuple[Numbers, Numbers, Numbers]
    columns: tuple[Numbers, npt.NDArray[np.bool_]]  # scores and positives of the ROC curves
    # by column of the data: (samples, groups) of 0 and 1
    groups: Mapping[str, Numbers] = field(default_factory=dict)


def collect_outcomes(
    logits: Tensor, probabilities: Tensor, labels: Tensor, groups: Mapping[str, Numbers]
) -> Outcomes:
    """Compare the outputs for samples with their labels."""
    scores, positive = roc_columns(logits, labels)
    columns = scores.numpy(), positive.numpy()
    if labels.ndim == 1:
        true = F.one_hot(labels, logits.shape[1]).double()
        answers = F.one_hot(logits.argmax(1), logits.shape[1]).double()
        losses = F.cross_entropy(logits, labels, reduction="none")
        right = (true * answers).sum(1)
        sure = probabilities.amax(1)[:, None].numpy()  # of the answer
        bins = _fill_bins(sure, right[:, None].numpy())
    else:
        true, answers = (labels > 0).double(), (logits > 0).double()
        losses = F.binary_cross_entropy_with_logits(logits, true, reduction="none").mean(1)
        right = (true == answers).double().mean(1)
        bins = _fill_bins(probabilities.numpy(), true.numpy())
    hits = (true * answers).numpy()
    outcome = right.numpy(), losses.numpy(), hits, answers.numpy(), true.numpy()
    return Outcomes(labels.ndim == 1, *outcome, bins, columns, groups)


def _fill_bins(probabilities: Numbers, came_true: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Sum up by sample and bin; a probability on an edge belongs to the lower bin."""
    places = np.clip(np.ceil(probabilities * BINS).astype(int) - 1, 0, BINS - 1)
    filled = []
    for values in (np.ones_like(probabilities), probabilities, came_true):
        table = np.zeros((len(probabilities), BINS))
        for column in range(probabilities.shape[1]):
            np.add.at(table, (np.arange(len(table)), places[:, column]), values[:, column])
        filled.append(table)
    return filled[0], filled[1], filled[2]


def compute_scores(found: Outcomes, counts: Numbers) -> dict[str, Numbers]:
    """Compute every score of resamples; `counts` (resamples, samples) say how often each is drawn.

    A score that is a list (recall per class, accuracy per group) has a column for each entry. NaN
    stands for what a resample leaves open, such as the recall of a class that it lacks.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        total = counts.sum(1)
        hits, answers, true = (counts @ part for part in (found.hits, found.answers, found.true))
        recall, f1 = hits / true, 2 * hits / (true + answers)
        inside, sure, came_true = (counts @ part for part in found.bins)
        scores = {
            "accuracy": counts @ found.right / total,
            "loss": counts @ found.losses / total,
            "macro_f1": _mean_where(f1, true > 0 if found.single else None),
            "auc": _compute_areas(found, counts),
            "ece": np.abs(sure - came_true).sum(1) / inside.sum(1),
            "recall": recall,
        }
        if found.single:
            scores["balanced_accuracy"] = _mean_where(recall, true > 0)
        for name, groups in found.groups.items():
            scores[GROUP + name] = (counts @ (groups * found.right[:, None])) / (counts @ groups)
    return scores


def compute_intervals(found: Outcomes, resamples: int, seed: int) -> dict[str, Numbers]:
    """Return the lower and the upper end of every score's interval, (2, ...)."""
    generator = numpy_generator(seed, "bootstrap")
    samples, parts = len(found.right), []
    for start in range(0, resamples, PORTION):
        size = min(PORTION, resamples - start)
        shares = np.full(samples, 1 / samples)
        counts = generator.multinomial(samples, shares, size=size).astype(np.float64)
        parts.append(compute_scores(found, counts))
    ends = [50 * (1 - LEVEL), 50 * (1 + LEVEL)]
    return {
        name: _percentiles(np.concatenate([part[name] for part in parts]), ends)
        for name in (parts[0] if parts else {})
    }


def _percentiles(values: Numbers, ends: list[float]) -> Numbers:
    """Take percentiles of what resamples gave; NaN where none gave anything."""
    flat: Any = values[:, None] if values.ndim == 1 else values
    found = np.full((2, flat.shape[1]), np.nan)
    for column in range(flat.shape[1]):
        known = flat[:, column][~np.isnan(flat[:, column])]
        if len(known):
            found[:, column] = np.percentile(known, ends)
    return found[:, 0] if values.ndim == 1 else found


def _mean_where(values: Numbers, present: npt.NDArray[np.bool_] | None) -> Numbers:
    """Average over classes: those that are present, or all, where 0/0 counts as 0."""
    if present is None:
        return np.asarray(np.nan_to_num(values).mean(1))
    return np.asarray(np.where(present, values, 0).sum(1) / present.sum(1))


def _compute_areas(found: Outcomes, counts: Numbers) -> Numbers:
    """Compute the mean area under the ROC curves; a tie counts half."""
    scores, positive = found.columns
    areas = []
    for column in range(scores.shape[1]):
        order = np.argsort(scores[:, column], kind="stable")
        values, drawn = scores[order, column], counts[:, order]
        starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
        yes = np.add.reduceat(drawn * positive[order, column], starts, axis=1)
        no = np.add.reduceat(drawn * ~positive[order, column], starts, axis=1)
        below = np.cumsum(no, axis=1) - no
        pairs = yes.sum(1) * no.sum(1)
        areas.append((yes * (below + no / 2)).sum(1) / pairs)
    table = np.stack(areas, axis=1)
    known = ~np.isnan(table)
    return np.asarray(np.where(known, table, 0).sum(1) / known.sum(1))
