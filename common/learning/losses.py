"""Losses as pure functions of tensors: no model, no state, no randomness.

A method's declaration says which equation of its paper each loss implements.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def squared_distance(weights: Sequence[Tensor], reference: Sequence[Tensor]) -> Tensor:
    """||w - r||^2 over all tensors together."""
    return torch.stack(
        [(weight - fixed).square().sum() for weight, fixed in zip(weights, reference, strict=True)]
    ).sum()


def inner_product(weights: Sequence[Tensor], direction: Sequence[Tensor]) -> Tensor:
    """<d, w> over all tensors together: linear in w, so that its gradient is exactly d."""
    return torch.stack(
        [(weight * fixed).sum() for weight, fixed in zip(weights, direction, strict=True)]
    ).sum()


def contrast(features: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """MOON's -log(e^{cos(z, z+)/T} / (e^{cos(z, z+)/T} + e^{cos(z, z-)/T})), mean over the batch.

    This is the softplus of (cos(z, z-) - cos(z, z+)) / T. One product gives the difference of the
    cosines, so that the gradient is exactly 0 if the two references are equal.
    """
    away = F.normalize(negative, eps=1e-8) - F.normalize(positive, eps=1e-8)  # (batch, features)
    difference = (F.normalize(features, eps=1e-8) * away).sum(dim=1)  # (batch,)
    return F.softplus(difference / temperature).mean()


def supervised_contrast(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Khosla et al.'s loss with one view: it pulls rows of one label together, others apart.

    Mean over all rows i of -1/|P_i| sum_{p in P_i} log(e^{u_i.u_p/T} / sum_{k != i} e^{u_i.u_k/T}),
    where u are the rows scaled to length 1, and P_i the rows with i's label except i itself. A row
    with empty P_i counts as 0; a row of zeros stays zero.
    """
    if len(features) < 2:
        return features.new_zeros(())
    rows = F.normalize(features.flatten(1), eps=1e-12)  # (rows, width)
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    cosines = (rows @ rows.T / temperature).masked_fill(itself, -math.inf)  # (rows, rows)
    log_shares = F.log_softmax(cosines, dim=1).masked_fill(itself, 0.0)
    positives = (labels[:, None] == labels[None, :]) & ~itself  # P
    gains = (log_shares * positives).sum(dim=1) / positives.sum(dim=1).clamp(min=1)  # (rows,)
    return -gains.mean()


def label_distance(
    real: Tensor, real_labels: Tensor, virtual: Tensor, virtual_labels: Tensor
) -> Tensor:
    """The distance between real and virtual features of a label, averaged over the real labels.

    It is the distance between the mean rows, each row scaled to length 1. VHL's theorem 3.2 bounds
    its expectation over labels, for distributions that differ in their means.
    """
    rows, others = (F.normalize(features.flatten(1), eps=1e-12) for features in (real, virtual))
    distances = [
        (
            rows[real_labels == label].mean(dim=0) - others[virtual_labels == label].mean(dim=0)
        ).norm()
        for label in torch.unique(real_labels).tolist()
        if (virtual_labels == label).any()
    ]
    return torch.stack(distances).mean() if distances else real.new_full((), math.nan)


def decorrelation(features: Tensor, eps: float = 1e-8) -> Tensor:
    """FedDecorr's mean squared off-diagonal correlation of the features, at the scale of its code.

    It is zero for a batch of one.
    """
    samples, width = features.shape
    if samples < 2 or width < 2:
        return features.new_zeros(())
    centred = features - features.mean(dim=0)  # (samples, width)
    standard = centred / torch.sqrt(centred.var(dim=0) + eps)  # (samples, width)
    correlation = standard.T @ standard  # (width, width), samples - 1 times the correlations
    off_diagonal = correlation - correlation.diagonal().diag()
    return off_diagonal.square().sum() / (width * (width - 1)) / samples


def bernoulli(logits: Tensor) -> Tensor:
    """Turn each multi-label logit into two logits: (batch, classes) to (batch * classes, 2).

    The softmax of (z, 0) is (sigmoid(z), 1 - sigmoid(z)), so that losses on softmax outputs also
    work for multi-label tasks.
    """
    flat = logits.flatten()
    return torch.stack((flat, torch.zeros_like(flat)), dim=1)


def jensen_shannon(one: Tensor, other: Tensor, temperature: float = 1.0) -> Tensor:
    """FedCOG's eq. 2 without its "1 -": KL(p || m) / 2 + KL(q || m) / 2, mean over the batch.

    Here p and q are softmax outputs and m = (p + q) / 2. The value lies between 0 and ln 2.
    """
    # Logarithms of p, q and m, each (batch, classes).
    p, q = (F.log_softmax(logits / temperature, dim=1) for logits in (one, other))
    m = torch.logaddexp(p, q) - math.log(2)
    return (p.exp() * (p - m) + q.exp() * (q - m)).sum(dim=1).mean() / 2


def jensen_shannon_clamped(one: Tensor, other: Tensor, temperature: float = 1.0) -> Tensor:
    """The same as FedCOG's code computes it: KL(m || p) / 2 + KL(m || q) / 2.

    The probabilities are clamped, and so is the mean over the batch.
    """
    p, q = (F.softmax(logits / temperature, dim=1) for logits in (one, other))  # (batch, classes)
    p, q, m = (probabilities.clamp(0.01, 0.99) for probabilities in (p, q, (p + q) / 2))
    divergence = (m * (2 * m.log() - p.log() - q.log())).sum(dim=1).mean() / 2
    return divergence.clamp(0, 1)


def distillation(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """T^2 KL(softmax(teacher / T) || softmax(student / T)), mean over the batch."""
    # Logarithms of the probabilities, each (batch, classes).
    learned, taught = (F.log_softmax(logits / temperature, dim=1) for logits in (student, teacher))
    return F.kl_div(learned, taught, reduction="batchmean", log_target=True) * temperature**2


def divergences(
    student: Tensor, teacher: Tensor, temperature: float = 1.0, reverse: bool = False
) -> Tensor:
    """KL(softmax(teacher / T) || softmax(student / T)) of every sample, without the factor T^2.

    `reverse` exchanges the two, as FedMD-CG's equations are written. The teacher is not detached
    here.
    """
    # Logarithms of the probabilities, each (batch, classes).
    learned, taught = (F.log_softmax(logits / temperature, dim=1) for logits in (student, teacher))
    first, second = (learned, taught) if reverse else (taught, learned)
    return (first.exp() * (first - second)).sum(dim=1)  # (batch,)


def feature_distance(features: Tensor, others: Tensor, by_norm: bool = False) -> Tensor:
    """The squared distance of paired rows, mean over the batch.

    It is the mean over the dimensions or, as FedMD-CG's equations are written, their sum.
    """
    squares = (features - others).square()  # (batch, feature_dim)
    return squares.sum(dim=1).mean() if by_norm else squares.mean()


def statistics_distance(values: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """||mean - E[x]|| + ||variance - Var[x]|| over the channels of a BatchNorm layer's input x.

    `values` holds x as (batch, channels, ...).
    """
    over = [0, *range(2, values.ndim)]
    batch_variance, batch_mean = torch.var_mean(values, dim=over, correction=0)  # (channels,)
    distances = [(batch_mean - mean).norm(), (batch_variance - variance).norm()]
    return torch.stack(distances).sum()


def soft_cross_entropy(logits: Tensor, label_logits: Tensor) -> Tensor:
    """-softmax(Y) log softmax(z), mean over the batch and over the C classes.

    DynaFed's learning rates assume this division by C.
    """
    products = F.softmax(label_logits, dim=1) * F.log_softmax(logits, dim=1)  # (batch, classes)
    return -products.mean()


def squared_ratio(weights: Tensor, target: Tensor, start: Tensor) -> Tensor:
    """DynaFed's ||w - w*||^2 / ||w^t - w*||^2 of flat weights; at 1, training came no closer."""
    return (weights - target).square().sum() / (start - target).square().sum()


def cosine_ratio(weights: Tensor, target: Tensor, start: Tensor) -> Tensor:
    """The same ratio for the cosine distance."""
    return cosine_distance(weights, target) / cosine_distance(start, target)


def cosine_distance(one: Tensor, other: Tensor) -> Tensor:
    """1 - cos(a, b) of flat weights, as half the squared distance of the unit vectors.

    This form is accurate even if the two are close.
    """
    return (F.normalize(one, dim=0) - F.normalize(other, dim=0)).square().sum() / 2


def row_distances(target: Tensor, found: Tensor, eps: float = 1e-6) -> Tensor:
    """FedLGD's 1 - cos(g, h) for every row of one weight's gradients g and h.

    A row holds what leads to one output node: (out, ...) is seen as (out, rest). Where g's row is
    zero, no h is closer than another, and the row is left out.
    """
    rows, others = target.flatten(1), found.flatten(1)  # (out, rest)
    moved = rows.any(dim=1)  # (out,)
    rows, others = rows[moved], others[moved]
    norms = torch.linalg.vector_norm(rows, dim=1) * torch.linalg.vector_norm(others, dim=1)
    distances: Tensor = 1 - (rows * others).sum(dim=1) / (norms + eps)
    return distances


def kernel_discrepancy(one: Tensor, other: Tensor) -> Tensor:
    """The squared maximum mean discrepancy of two sets of rows, under a sum of five RBF kernels.

    Their bandwidths are 1/4, 1/2, 1, 2 and 4 times the mean squared distance of two different rows
    of both sets together, which counts as a constant.
    """
    rows = torch.cat((one, other)).flatten(1)  # (rows, width)
    lengths = rows.square().sum(dim=1)  # (rows,)
    squared = (lengths[:, None] + lengths - 2 * rows @ rows.T).clamp(min=0)  # (rows, rows)
    mean = squared.detach().sum() / (len(rows) * (len(rows) - 1))
    if not mean:
        return squared.sum() * 0  # all rows are the same
    kernel = torch.stack([(-squared / (mean * 2.0**power)).exp() for power in range(-2, 3)]).sum(0)
    ours, theirs = slice(len(one)), slice(len(one), None)
    return (
        kernel[ours, ours].mean() + kernel[theirs, theirs].mean() - 2 * kernel[ours, theirs].mean()
    )
