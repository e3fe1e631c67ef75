"""Deals every client's samples into a half that a run trains on and a half that is held out.

An attack on membership is judged by samples of both kinds, and nothing but the training may tell
them apart. So the draw is random within every client, and a file lists the positions of the samples
that the run trains on (`partition="indices(...)"`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.set import DataSet
from fedmirage.common.drafts import write_whole
from fedmirage.common.seeds import numpy_generator

LEAST = 200  # members, and as many others: with fewer, an area under a curve says little
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Halves:
    """One draw: `parts` are the positions that each client trains on."""

    parts: list[Indices]
    pool: Indices  # all positions that any client holds, ascending

    @property
    def inside(self) -> Mask:
        """Which samples of the pool are trained on: the members."""
        return np.isin(self.pool, np.concatenate(self.parts))

    def opposite(self, whole: Sequence[Indices]) -> "Halves":
        """Swap the halves of a split."""
        others = [np.setdiff1d(all_of, own) for all_of, own in zip(whole, self.parts, strict=True)]
        return Halves(others, self.pool)

    def write(self, path: Path, dataset: DataSet, seed: int) -> str:
        """Write the file of positions, and return the partition line that names it."""
        parts = [part.tolist() for part in self.parts]
        content = {"data": dataset.fingerprint, "seeds": {str(seed): parts}}
        write_whole(path, json.dumps(content).encode())
        return f"indices(path={str(path.absolute())!r})"


def draw_halves(whole: Sequence[Indices], seed: int, *position: int | str) -> Halves:
    """Draw a random half of every client's samples; of an odd number, the smaller half."""
    random = numpy_generator(seed, "audit.halves", *position)
    parts = [np.sort(random.permutation(part)[: len(part) // 2]) for part in whole]
    return Halves(parts, np.sort(np.concatenate(whole)))


def find_problems(whole: Sequence[Indices]) -> list[str]:
    """Say what is wrong with a split of which half is to be held out."""
    found = []
    alone = [client for client, part in enumerate(whole) if len(part) < 2]
    if alone:
        found.append(
            f"audit: client {alone[0]} has {len(whole[alone[0]])} samples, so none could be held"
            f" out beside one to train on ({len(alone)} such clients); take fewer clients, more"
            " data or less skew"
        )
    members = sum(len(part) // 2 for part in whole)
    if members < LEAST:
        found.append(
            f"audit: half of the {sum(map(len, whole))} samples is held out, which leaves"
            f" {members} members, but an attack is judged by at least {LEAST}; take a larger set or"
            " a higher limit"
        )
    return found
