"""Arrays in files: written whole or not at all, and never read back otherwise than written.

A file is in the safetensors format, which holds arrays and no programs. Its header carries plain
facts as JSON and a checksum of everything, so that a flipped bit is a sentence and not another
result. A file that is private can be read by its owner only.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError, reason
from fedmirage.common.wire.payload import Array

# The only key of the file's metadata. Safetensors writes several keys in an order that differs from
# time to time, but the same content must give the same file.
KEY = "fedmirage"
CHECKSUM = "sha256"


def write_arrays(
    path: str | Path,
    arrays: Mapping[str, Array],
    facts: Mapping[str, Any] | None = None,
    private: bool = False,
) -> None:
    """Write named arrays and facts; what stood there before is replaced in one step."""
    named = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    header = dict(facts or {})
    content = save(named, {KEY: json.dumps({**header, CHECKSUM: compute_checksum(named, header)})})
    write_whole(Path(path), content, private)


def read_arrays(path: str | Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read the arrays of a file by name, in the order of the file, and its facts."""
    arrays, metadata = _open(path)
    try:
        facts: dict[str, Any] = json.loads(metadata[KEY])
        checksum = facts.pop(CHECKSUM)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise DataError(
            f"{str(path)!r} carries no checksum; it was written by another program or by an earlier"
            " version of this one: write it again"
        ) from None
    if checksum != compute_checksum(arrays, facts):
        raise DataError(
            f"{str(path)!r} is damaged: its content does not have the checksum that was written"
            " with it; restore it from a copy"
        )
    return arrays, facts


def read_any_arrays(path: str | Path) -> dict[str, Array]:
    """Read the arrays of a safetensors file that any program may have written."""
    return _open(path)[0]


def _open(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return arrays, dict(file.metadata() or {})
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}; check the path") from None
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{str(path)!r} is damaged, or not a file of arrays ({reason(error)}); restore it from"
            " a copy"
        ) from None


def compute_checksum(arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> str:
    """SHA-256 over the facts, and over names, types, shapes and contents of all arrays."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
