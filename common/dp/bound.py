"""Bounding an update: the step that limits one client's influence, on either side."""

import math

import numpy as np

from fedmirage.common.dp.noise import gaussian
from fedmirage.common.wire.payload import Arrays


def bound_update(
    arrays: Arrays, reference: Arrays, clip: float, noise: float = 0.0
) -> tuple[Arrays, bool]:
    """Return reference + d min(1, clip / |d|) + N(0, (noise clip)^2), and whether |d| > clip.

    Here, d = arrays - reference.
    """
    moved = [
        array.astype(np.float64) - start for array, start in zip(arrays, reference, strict=True)
    ]
    length = math.sqrt(sum(float(np.square(delta).sum()) for delta in moved))
    clipped = length > clip
    if not clipped and not noise:
        return arrays, False  # bit for bit: start + (array - start) may differ from array
    scale = clip / length if clipped else 1.0
    noised = [
        start + scale * delta + gaussian(delta.shape, noise * clip)
        for start, delta in zip(reference, moved, strict=True)
    ]
    return [new.astype(array.dtype) for new, array in zip(noised, arrays, strict=True)], clipped
