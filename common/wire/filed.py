"""Arrays of a message that wait in a file: each is read when it is needed, and checked.

The file is in the safetensors format, which holds no programs. Each array is stored as the bytes
that came, so whoever reads it gets the same bits.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedmirage.common.drafts import open_private
from fedmirage.common.errors import FedmirageError, reason


@dataclass(frozen=True)
class FiledTensors(Sequence[bytes]):
    """Some of the arrays in a file, in the place of a list of them in memory."""

    path: Path
    lengths: tuple[int, ...]  # in bytes, of all arrays in the file
    checksums: tuple[int, ...]
    places: tuple[int, ...]  # which of them these are

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> "FiledTensors": ...

    def __getitem__(self, index: int | slice) -> "bytes | FiledTensors":
        if isinstance(index, slice):
            return replace(self, places=self.places[index])
        return self.read(self.places[index])

    def pick(self, indices: Sequence[int]) -> "FiledTensors":
        """Return some of these arrays without reading them."""
        return replace(self, places=tuple(self.places[index] for index in indices))

    @property
    def size(self) -> int:
        """How many bytes these arrays take."""
        return sum(self.lengths[place] for place in self.places)

    def read(self, place: int) -> bytes:
        """Read one array; a sentence says so if it is not what was written."""
        try:
            with safe_open(self.path, framework="numpy") as file:
                content: bytes = file.get_tensor(name_tensor(place)).tobytes()
        except (SafetensorError, OSError) as error:
            raise FedmirageError(
                f"a client's reply cannot be read again from {self.path} ({reason(error)}); leave"
                " that folder alone while the run goes on, and continue with --resume"
            ) from None
        if (len(content), zlib.crc32(content)) != (self.lengths[place], self.checksums[place]):
            raise FedmirageError(
                f"a client's reply in {self.path} is not what was written there; check the disk,"
                " and continue with --resume"
            )
        return content


def write_tensors(path: Path, tensors: Sequence[bytes]) -> FiledTensors:
    """Write the arrays of a message to a new file, which only its owner can read."""
    named = {
        name_tensor(place): np.frombuffer(tensor, np.uint8) for place, tensor in enumerate(tensors)
    }
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(path, "wb", opener=open_private) as file:
        file.write(save(named))
    lengths, checksums = tuple(map(len, tensors)), tuple(map(zlib.crc32, tensors))
    return FiledTensors(path, lengths, checksums, tuple(range(len(tensors))))


def name_tensor(place: int) -> str:
    """Name an array in a file by its place in the message."""
    return f"{place:06d}"
