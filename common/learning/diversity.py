"""Losses that keep a generator of features from giving the same output for every noise.

Each is exp(-mean over all pairs j, k of w_jk a_jk), where a_jk is how far two outputs lie apart and
w_jk how far their inputs do. FedMD-CG's kinds differ in w; distances are the mean over the
dimensions of the squared differences, or Euclidean norms, as its equations 7 and 8 are written.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Distances = Callable[[Tensor], Tensor]  # (rows, width) to (rows, rows)


def mean_squares(rows: Tensor) -> Tensor:
    """The mean over the dimensions of the squared differences of all pairs of rows.

    |a - b|^2 = |a|^2 + |b|^2 - 2 ab needs one product instead of all differences.
    """
    squares = rows.square().sum(dim=1)  # (rows,)
    return (squares[:, None] + squares[None, :] - 2 * rows @ rows.T) / rows.shape[1]


def mean_absolutes(rows: Tensor) -> Tensor:
    """The mean over the dimensions of the absolute differences of all pairs of rows."""
    return (rows[:, None] - rows[None, :]).abs().mean(dim=2)  # (rows, rows)


def norms(rows: Tensor) -> Tensor:
    """The Euclidean distances of all pairs of rows; where two rows are equal, the gradient is 0."""
    squares = (rows[:, None] - rows[None, :]).square().sum(dim=2)  # (rows, rows)
    apart = squares > 0
    return torch.where(apart, squares.where(apart, 1.0).sqrt(), 0.0)


def noise_diversity(
    features: Tensor, noise: Tensor, labels: Tensor, classes: int, distances: Distances
) -> Tensor:
    """L_div^0 (eq. 7): w is the distance of the noises, whatever the labels."""
    return _diversity(distances(features), distances(noise))


def input_diversity(
    features: Tensor, noise: Tensor, labels: Tensor, classes: int, distances: Distances
) -> Tensor:
    """L_div^1: w is the distance of the generator's inputs, noise and one-hot label together."""
    one_hot = F.one_hot(labels, classes).to(noise.dtype)  # (batch, classes)
    return _diversity(distances(features), distances(torch.cat((noise, one_hot), dim=1)))


def label_diversity(
    features: Tensor, noise: Tensor, labels: Tensor, classes: int, distances: Distances
) -> Tensor:
    """L_div^2 (eq. 8): w is the distance of the noises, times e^d if the labels differ.

    d is the distance of two one-hot labels: the mean of |y_j - y_k| over the classes, which is
    2 / classes, or, with norms, their sum 2.
    """
    apart = 2.0 if distances is norms else 2.0 / classes
    differ = (labels[:, None] != labels[None, :]).to(noise.dtype)  # (batch, batch)
    return _diversity(distances(features), distances(noise) * (apart * differ).exp())


def absolute_diversity(features: Tensor, noise: Tensor) -> Tensor:
    """FedGen's: as L_div^0, but outputs lie apart by the mean of their absolute differences."""
    return _diversity(mean_absolutes(features), mean_squares(noise))


def _diversity(outputs: Tensor, weights: Tensor) -> Tensor:
    return (-(weights * outputs).mean()).exp()


DIVERSITY = {"div0": noise_diversity, "div1": input_diversity, "div2": label_diversity}
