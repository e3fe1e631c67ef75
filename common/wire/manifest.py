"""The manifest of a model: the name, shape and type of every array that is sent or saved.

Arrays are sent and saved in the order of the manifest. It holds floating-point arrays only; integer
buffers (BatchNorm counts its batches) are never sent, averaged or saved. `to_arrays` and
`from_arrays` turn a module into these arrays and back, with strict checks. Messages that train
nothing read manifests, too, so torch is loaded where it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedmirage.common.errors import WireError, say_kind
from fedmirage.common.wire.payload import Array, Arrays

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Entry:
    """What one array must look like."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None allows any type
    trainable: bool = True  # False for BatchNorm's running statistics, which are only averaged
    fixed: bool = False  # what `freeze` keeps as it is; it is sent, and never trained

    @property
    def part(self) -> str:
        """The part of the model that the array belongs to, e.g. "features"."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> int:
        """How many numbers the array holds."""
        return math.prod(self.shape)

    def check(self, array: Any) -> None:
        """Raise a WireError if an array does not fit this entry."""
        if not isinstance(array, np.ndarray):
            raise WireError(
                f"weights: entry {self.name!r} is {say_kind(array)}, not a numpy array; send"
                " numpy arrays"
            )
        if array.shape != self.shape:
            raise WireError(
                f"weights: entry {self.name!r} has shape {array.shape}, but the model's has"
                f" {self.shape}; both sides need the same model"
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
                " are not finite; lower lr, or check the client's data"
            )


@dataclass(frozen=True)
class Manifest:
    """Names, shapes and types of a list of arrays, and which of them are trained."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Manifest:
        """A module's floating-point parameters and buffers, in the order of its state dict."""
        parameters = dict(module.named_parameters(remove_duplicate=False))
        fixed: Collection[str] = getattr(module, "fixed", ())
        return cls(
            tuple(
                Entry(
                    name,
                    tuple(tensor.shape),
                    _numpy_type(tensor),
                    name in parameters and name not in fixed,
                    name in fixed,
                )
                for name, tensor in floating(module)
            )
        )

    @classmethod
    def anonymous(cls, arrays: Sequence[Array]) -> Manifest:
        """Arrays of an unknown model: each is named by its position and counts as trainable."""
        return cls(
            tuple(Entry(str(index), array.shape, array.dtype) for index, array in enumerate(arrays))
        )

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arrays, in order."""
        return tuple(entry.name for entry in self.entries)

    @property
    def size(self) -> int:
        """How many numbers all arrays hold together."""
        return sum(entry.size for entry in self.entries)

    @property
    def weights(self) -> Manifest:
        """The trainable arrays."""
        return Manifest(tuple(entry for entry in self.entries if entry.trainable))

    @property
    def statistics(self) -> Manifest:
        """The arrays that are averaged but not trained, without those that are fixed."""
        return Manifest(
            tuple(entry for entry in self.entries if not entry.trainable and not entry.fixed)
        )

    def keep_fixed(self, arrays: Arrays, before: Arrays) -> Arrays:
        """Put back what `freeze` keeps as it is, whatever became of it."""
        return [
            old if entry.fixed else new
            for entry, new, old in zip(self.entries, arrays, before, strict=True)
        ]

    def only(self, parts: Collection[str]) -> Manifest:
        """The arrays of some parts of the model."""
        return Manifest(tuple(entry for entry in self.entries if entry.part in parts))

    def name(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Map the names to the given arrays."""
        self.check_count(arrays)
        return dict(zip(self.names, arrays, strict=True))

    def pick(self, arrays: Sequence[Array], whole: Manifest) -> Arrays:
        """Select the arrays of this manifest from those of `whole`, which contains it."""
        named = whole.name(arrays)
        return [named[name] for name in self.names]

    def place(self, arrays: Sequence[Array], among: Sequence[Array], whole: Manifest) -> Arrays:
        """Replace the arrays of this manifest `among` those of `whole`, and return all of them."""
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
    """The entries of a module's state dict that are sent and saved."""
    return [
        (name, tensor) for name, tensor in module.state_dict().items() if tensor.is_floating_point()
    ]


def to_arrays(module: nn.Module) -> list[Array]:
    """Copy all entries of a module into contiguous arrays, whatever its memory format."""
    return arrays_of([tensor for _, tensor in floating(module)])


def from_arrays(module: nn.Module, arrays: Sequence[Array]) -> None:
    """Copy arrays into a module's own tensors; a WireError leaves the module unchanged."""
    import torch

    Manifest.of(module).check(arrays)
    with torch.no_grad():
        for (_, tensor), array in zip(floating(module), arrays, strict=True):
            # Arrays from a message or a file may be read-only, so torch.tensor copies them first.
            tensor.copy_(torch.tensor(array))


def tensors_like(arrays: Sequence[Array], like: Sequence[Tensor]) -> list[Tensor]:
    """Convert arrays to tensors, each with the device and the memory format of its counterpart."""
    import torch

    return [
        torch.empty_like(counterpart).copy_(torch.tensor(array))
        for array, counterpart in zip(arrays, like, strict=True)
    ]


def arrays_of(tensors: Sequence[Tensor]) -> list[Array]:
    """Copy tensors into contiguous arrays, whatever their memory format."""
    return [np.array(tensor.detach().cpu().numpy(), order="C") for tensor in tensors]


def _numpy_type(tensor: Tensor) -> np.dtype[Any]:
    return np.asarray(tensor.new_empty(0, device="cpu")).dtype
