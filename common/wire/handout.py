"""What both sides of a hand-out agree on: how a set of arrays is identified, and how it is sent.

A section that hands out a set is [digest], [digest, *arrays] or [digest, recipe]. The digest
identifies the version of the set; the arrays follow if the receiver is not known to have that
version. A recipe is one vector of integers (int64) from which the receiver can compute the arrays.
"""

import hashlib

import numpy as np

from fedmirage.common.wire.payload import Array, Arrays


def digest(arrays: Arrays) -> Array:
    """SHA-256 over types, shapes and contents, as 32 bytes."""
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(f"{array.dtype.str}{array.shape}".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(sha256.digest(), dtype=np.uint8)


def is_version(arrays: Arrays, version: Array) -> bool:
    """Whether these arrays are the set that a digest identifies."""
    return np.array_equal(digest(arrays), version)


def is_recipe(arrays: Arrays) -> bool:
    """Whether this may be a recipe; a set can look the same, but then its digest matches."""
    return len(arrays) == 1 and arrays[0].dtype == np.int64 and arrays[0].ndim == 1
