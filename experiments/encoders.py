"""Frozen encoders for experiments with embeddings; their weights follow from a fixed seed."""

import torch
import torch.nn.functional as F
from torch import Tensor

WIDTH = 64  # of an embedding


def random_features(images: Tensor) -> Tensor:
    """Encode pictures by two random convolutions, pooled: features that nobody trained.

    (samples, channels, height, width) of uint8 to (samples, 64), each vector of unit variance.
    """
    generator = torch.Generator().manual_seed(0)
    maps = images.float() / 255 - 0.3
    for width in (32, WIDTH // 4):
        fan_in = maps.shape[1] * 9
        kernel = torch.randn(width, maps.shape[1], 3, 3, generator=generator) / fan_in**0.5
        maps = F.avg_pool2d(F.conv2d(maps, kernel, padding=1).abs(), 2)
    flat = F.adaptive_avg_pool2d(maps, 2).flatten(1)  # (samples, 64)
    return (flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True)
