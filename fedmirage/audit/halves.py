"""Deals every client's samples into a half that a run trains on and a half that is held out.

An attack on membership is judged by samples of both kinds, and nothing but the training may tell
them apart. So the draw is random within every client, and a file lists the positions of the samples
that the run trains on (`partition="indices(...)"`).
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedmirage.audit.attack import PICTURES
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.partitions.listed import read_listed
from fedmirage.common.data.partitions.named import divide
from fedmirage.common.data.partitions.params import Listed
from fedmirage.common.data.set import DataSet
from fedmirage.common.drafts import write_whole
from fedmirage.common.seeds import numpy_generator
from fedmirage.common.settings.config import RunConfig, configure

LEAST = 200  # members, and as many others: with fewer, an area under a curve says little
TRAINED, HELD_OUT = "trained-on.json", "held-out.json"
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Halves:
    """One draw: the positions that each client trains on, and those that it holds out."""

    trained: list[Indices]
    held_out: list[Indices]

    @property
    def pool(self) -> Indices:
        """All positions, ascending."""
        return np.sort(np.concatenate([*self.trained, *self.held_out]))

    @property
    def inside(self) -> Mask:
        """Which samples of the pool are trained on: the members."""
        return np.isin(self.pool, np.concatenate(self.trained))

    def of(self, clients: Collection[int]) -> "Halves":
        """Return what these clients have."""
        chosen = sorted(clients)
        trained, held_out = (
            [parts[client] for client in chosen] for parts in (self.trained, self.held_out)
        )
        return Halves(trained, held_out)

    @property
    def swapped(self) -> "Halves":
        """Train on what was held out."""
        return Halves(self.held_out, self.trained)

    def draw_again(self, seed: int, *position: int | str) -> "Halves":
        """Deal the same samples of every client anew."""
        whole = [np.concatenate(both) for both in zip(self.trained, self.held_out, strict=True)]
        return draw_halves(whole, seed, *position)


def draw_halves(whole: Sequence[Indices], seed: int, *position: int | str) -> Halves:
    """Deal every client's samples at random; of an odd number, one more is held out."""
    random = numpy_generator(seed, "audit.halves", *position)
    shuffled = [random.permutation(np.sort(part)) for part in whole]
    return Halves(
        [np.sort(part[: len(part) // 2]) for part in shuffled],
        [np.sort(part[len(part) // 2 :]) for part in shuffled],
    )


def find_problems(attack: str, whole: Sequence[Indices]) -> list[str]:
    """Say what is wrong with a split of which half is to be held out."""
    alone = [client for client, part in enumerate(whole) if len(part) < 2]
    if alone:
        return [
            f"attack: {attack} holds out half of every client's samples, but client {alone[0]} has"
            f" {len(whole[alone[0]])}, and nothing could be held out ({len(alone)} such clients);"
            " take fewer clients, more data or less skew"
        ]
    members, samples = sum(len(part) // 2 for part in whole), sum(map(len, whole))
    if members < LEAST:
        return [
            f"attack: {attack} holds out half of the {samples} samples, and {members} members are"
            f" too few to judge it by; take a larger set or a higher limit, for at least {LEAST}"
        ]
    return []


def hold_out(config: RunConfig) -> RunConfig:
    """Let a run train on half of every client's samples; files in its folder say which."""
    dataset = load(config.dataset, config.data_dir or None, config.download)
    halves = draw_halves(divide(config, dataset), config.seed)
    folder = Path(config.out) / PICTURES
    write_split(folder / HELD_OUT, halves.held_out, dataset, config.seed)
    line = write_split(folder / TRAINED, halves.trained, dataset, config.seed)
    return configure(config.flat(), {"partition": line})


def write_split(path: Path, parts: Sequence[Indices], dataset: DataSet, seed: int) -> str:
    """Write the positions of every client, and return the partition line that names the file."""
    listed = [part.tolist() for part in parts]
    content = {"data": dataset.fingerprint, "seeds": {str(seed): listed}}
    write_whole(path, json.dumps(content).encode())
    return f"indices(path={str(path.absolute())!r})"


def read_halves(config: RunConfig, dataset: DataSet) -> Halves:
    """Read which half a run trains on."""
    folder = Path(config.out) / PICTURES
    trained, held_out = (
        read_listed(Listed(path=name), dataset, config.clients, config.seed, folder)
        for name in (TRAINED, HELD_OUT)
    )
    return Halves(trained, held_out)
