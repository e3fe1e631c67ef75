"""Frozen encoders for tests of embeddings."""

import socket

import torch
import torch.nn.functional as F
from torch import Tensor


def shrink(images: Tensor) -> Tensor:
    """Encode pictures by their mean brightness in a grid of 4x4."""
    return F.adaptive_avg_pool2d(images.float().mean(1, keepdim=True) / 255, 4).flatten(1)


def count_letters(texts: list[str]) -> Tensor:
    """Encode texts by how often each of eight letters occurs."""
    return torch.tensor([[float(text.count(letter)) for letter in "abcdehot"] for text in texts])


def too_few(inputs: list[str]) -> Tensor:
    """Return one vector too few."""
    return count_letters(inputs)[1:]


def growing(texts: list[str]) -> Tensor:
    """Return vectors whose width depends on the number of texts."""
    return torch.ones(len(texts), len(texts))


def by_first_text(texts: list[str]) -> Tensor:
    """Return vectors as wide as the first text is long."""
    return torch.ones(len(texts), len(texts[0]))


def not_finite(texts: list[str]) -> Tensor:
    """Return NaN for the first text."""
    found = count_letters(texts)
    found[0, 0] = float("nan")
    return found


def quoting(texts: list[str]) -> Tensor:
    """Fail with an error that quotes a text."""
    raise ValueError(f"cannot read {texts[0]}")


def calling_home(texts: list[str]) -> Tensor:
    """Try to reach a server."""
    socket.create_connection(("127.0.0.1", 9)).close()
    return count_letters(texts)
