"""The arrays of a model have names once: what each is called, and what it must look like.

The order of a manifest is the order in which arrays travel and are saved. Only floating arrays are
in it; integer buffers (BatchNorm counts its batches) stay where they are and are never sent,
averaged or saved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from common.errors import WireError
from common.wire.payload import Array, Arrays

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Entry:
    """One array."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None: any
    trainable: bool = True  # False for BatchNorm's running statistics, which are only averaged

    @property
    def part(self) -> str:
        """The part of the model that it belongs to, e.g. "features"."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    def check(self, array: Any) -> None:
        """Raise a WireError if an array is not this one."""
        if not isinstance(array, np.ndarray):
            raise WireError(
                f"weights: entry {self.name!r} is a {type(array).__name__}, not a numpy array; send"
                " numpy arrays"
            )
        if array.shape != self.shape:
            raise WireError(
                f"weights: entry {self.name!r} has shape {array.shape}, but the model's has"
                f" {self.shape}"
            )
        if array.dtype != self.dtype:
            raise WireError(
                f"weights: entry {self.name!r} is {array.dtype}, but the model's is {self.dtype};"
                " cast it before sending"
            )
        finite = np.isfinite(array)
        if not finite.all():
            raise WireError(
                f"weights: entry {self.name!r} holds {array.size - int(finite.sum())} values that"
                " are not finite; lower lr, or look at the client's data"
            )


@dataclass(frozen=True)
class Manifest:
    """Names, shapes and types of a list of arrays, and which of them are trained."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Manifest:
        """All that travels of a module: its floating parameters and buffers, in the order of its
        state dict."""
        parameters = dict(module.named_parameters(remove_duplicate=False))
        return cls(
            tuple(
                Entry(name, tuple(tensor.shape), _numpy_type(tensor), name in parameters)
                for name, tensor in floating(module)
            )
        )

    @classmethod
    def anonymous(cls, arrays: Sequence[Array]) -> Manifest:
        """Arrays of which nothing is known but themselves: each is called by its position, and
        trained."""
        return cls(
            tuple(Entry(str(at), array.shape, array.dtype) for at, array in enumerate(arrays))
        )

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(entry.name for entry in self.entries)

    @property
    def size(self) -> int:
        """Numbers in all arrays together."""
        return sum(entry.size for entry in self.entries)

    @property
    def weights(self) -> Manifest:
        """The trainable ones."""
        return Manifest(tuple(entry for entry in self.entries if entry.trainable))

    @property
    def statistics(self) -> Manifest:
        """Those that are not trained."""
        return Manifest(tuple(entry for entry in self.entries if not entry.trainable))

    def only(self, parts: Collection[str]) -> Manifest:
        """The arrays of some parts of the model."""
        return Manifest(tuple(entry for entry in self.entries if entry.part in parts))

    def name(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Arrays by their names."""
        self.check_count(arrays)
        return dict(zip(self.names, arrays, strict=True))

    def pick(self, arrays: Sequence[Array], whole: Manifest) -> Arrays:
        """The arrays of this manifest, out of those of another that has them too."""
        named = whole.name(arrays)
        return [named[name] for name in self.names]

    def place(self, arrays: Sequence[Array], among: Sequence[Array], whole: Manifest) -> Arrays:
        """The arrays of `whole`, with those of this manifest put in their places."""
        return list((whole.name(among) | self.name(arrays)).values())

    def check_count(self, arrays: Sequence[Any]) -> None:
        """Raise a WireError unless there is one array per entry."""
        if len(arrays) != len(self):
            raise WireError(
                f"weights: {len(arrays)} arrays arrived, but the model has {len(self)} entries;"
                " both sides need the same model"
            )

    def check(self, arrays: Sequence[Any]) -> None:
        """Raise a WireError unless the arrays are those of this manifest, and finite."""
        self.check_count(arrays)
        for entry, array in zip(self.entries, arrays, strict=True):
            entry.check(array)


def floating(module: nn.Module) -> list[tuple[str, Tensor]]:
    """The entries of a module's state dict that travel."""
    return [
        (name, tensor) for name, tensor in module.state_dict().items() if tensor.is_floating_point()
    ]


def _numpy_type(tensor: Tensor) -> np.dtype[Any]:
    return np.asarray(tensor.new_empty(0).cpu()).dtype
