"""Explicit randomness: every generator is seeded from (seed, purpose, round, partition)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch  # loaded where it is needed: messages that train nothing do without it


def derive(seed: int, purpose: str, *position: int | str) -> int:
    """A 63-bit seed that depends on nothing but its arguments, the same on every machine."""
    text = "/".join([str(seed), purpose, *map(str, position)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def torch_generator(seed: int, purpose: str, *position: int | str) -> torch.Generator:
    """A CPU generator, so that the numbers are the same whichever device they are moved to."""
    import torch

    return torch.Generator().manual_seed(derive(seed, purpose, *position))


def numpy_generator(seed: int, purpose: str, *position: int | str) -> np.random.Generator:
    """The same, as a generator of numpy."""
    return np.random.default_rng(derive(seed, purpose, *position))


def draw_order(seed: int, number: int, clients: int) -> list[int]:
    """The order of all partitions from which the clients of a round are taken, first to last."""
    order = numpy_generator(seed, "sampling", number).permutation(clients)
    return [int(partition) for partition in order]


@contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Seed torch's global CPU generator, which initialises layers, and restore it afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
