"""The area under the ROC curve, from the outputs for a whole set."""

import math
import statistics

import torch
import torch.nn.functional as F
from torch import Tensor


def roc_area(logits: Tensor, labels: Tensor) -> float | None:
    """Return the area under the ROC curve; None if the labels leave nothing to tell apart.

    Labels are class numbers, or (samples, classes) of 0 and 1. Two classes are told apart by the
    difference of their logits. With more there is one area per class, against all others by its
    probability, and with several labels per sample by its logit; what counts is the mean over
    classes that some samples have and others lack.
    """
    scores, true = roc_columns(logits, labels)
    counts = true.sum(0).tolist()
    both = [number for number, count in enumerate(counts) if 0 < count < len(true)]
    areas = [_column_area(scores[:, number], true[:, number]) for number in both]
    return statistics.fmean(torch.stack(areas).tolist()) if areas else None


def roc_columns(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores (samples, columns) that tell samples apart, and which are positive."""
    exact = logits.double()
    if labels.ndim == 2:
        scores, true = exact, labels > 0
    elif exact.shape[1] == 2:
        scores, true = (exact[:, 1] - exact[:, 0])[:, None], (labels == 1)[:, None]
    else:
        scores, true = exact.softmax(1), F.one_hot(labels, exact.shape[1]).bool()
    scores = scores.nan_to_num(-math.inf, math.inf, -math.inf)  # all NaN: nothing is told apart
    return scores, true


def _column_area(scores: Tensor, true: Tensor) -> Tensor:
    """Return how often a positive scores higher than a negative (Mann and Whitney).

    A tie counts half.
    """
    positives, negatives = scores[true], scores[~true].sort().values
    below = torch.searchsorted(negatives, positives)
    not_above = torch.searchsorted(negatives, positives, right=True)
    pairs = len(positives) * len(negatives)
    return (below + not_above).sum().double() / (2 * pairs)
