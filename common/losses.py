"""Losses as pure functions of tensors: no model, no state, no randomness. A method's page says where in its paper each stands."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def squared_distance(weights: Sequence[Tensor], reference: Sequence[Tensor]) -> Tensor:
    """||w - r||^2 over all tensors together."""
    return torch.stack([(weight - fixed).square().sum() for weight, fixed in zip(weights, reference, strict=True)]).sum()


def inner_product(weights: Sequence[Tensor], direction: Sequence[Tensor]) -> Tensor:
    """<d, w> over all tensors together: linear in w, so that its gradient is exactly d."""
    return torch.stack([(weight * fixed).sum() for weight, fixed in zip(weights, direction, strict=True)]).sum()


def contrast(features: Tensor, positive: Tensor, negative: Tensor, temperature: float) -> Tensor:
    """MOON's -log(e^{cos(z, z+)/T} / (e^{cos(z, z+)/T} + e^{cos(z, z-)/T})), mean over the batch.

    As softplus of (cos(z, z-) - cos(z, z+)) / T, one product for both: where both references are one, its gradient is exactly 0.
    """
    away = F.normalize(negative, eps=1e-8) - F.normalize(positive, eps=1e-8)  # (batch, features)
    difference = (F.normalize(features, eps=1e-8) * away).sum(dim=1)  # (batch,)
    return F.softplus(difference / temperature).mean()


def decorrelation(features: Tensor, eps: float = 1e-8) -> Tensor:
    """FedDecorr's mean squared off-diagonal correlation of the features, at the scale of its code: zero for a batch of one."""
    samples, width = features.shape
    if samples < 2 or width < 2:
        return features.new_zeros(())
    centred = features - features.mean(dim=0)  # (samples, width)
    standard = centred / torch.sqrt(centred.var(dim=0) + eps)  # (samples, width)
    correlation = standard.T @ standard  # (width, width), samples - 1 times the correlations
    off_diagonal = correlation - correlation.diagonal().diag()
    return off_diagonal.square().sum() / (width * (width - 1)) / samples
