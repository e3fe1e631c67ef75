"""What both sides of a hand-out agree on: how a set of arrays is named, and how it travels.

A section that hands out a set is [digest], [digest, *arrays] or [digest, recipe]. The digest names
the version of the set; arrays follow where the receiver is not known to hold that version. A recipe
is one vector of whole numbers (int64), from which the receiver can make the arrays itself.
"""

import hashlib

import numpy as np

from common.wire.payload import Array, Arrays


def digest(arrays: Arrays) -> Array:
    """SHA-256 over types, shapes and contents, as 32 bytes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(found.digest(), dtype=np.uint8)


def is_version(arrays: Arrays, version: Array) -> bool:
    """Whether these arrays are the set that a digest names."""
    return np.array_equal(digest(arrays), version)


def is_recipe(arrays: Arrays) -> bool:
    """Whether this looks like a recipe; a set may look like one too, and is known by its digest."""
    return len(arrays) == 1 and arrays[0].dtype == np.int64 and arrays[0].ndim == 1
