"""How FedLGD's global images travel: as half precision, as bytes, or as they are.

Encoding loses some accuracy. So the server also works with what the clients decode, and both sides
have the same values.
"""

import numpy as np

from fedmirage.common.wire.payload import Array, Arrays

LARGEST = 65504.0  # the largest number in half precision
LEVELS = 255


def encode(images: Array, precision: str) -> Arrays:
    """Encode float32 images (samples, channels, height, width).

    "byte" gives levels, and per channel the value of level 0 and the step from level to level.
    """
    if precision == "single":
        return [images]
    if precision == "half":
        return [images.astype(np.float16)]
    low, high = images.min(axis=(0, 2, 3)), images.max(axis=(0, 2, 3))  # (channels,)
    step = (high - low) / np.float32(LEVELS)
    divisor = np.where(step > 0, step, np.float32(1))
    levels = np.rint((images - low[:, None, None]) / divisor[:, None, None])
    return [levels.clip(0, LEVELS).astype(np.uint8), low, step]


def decode(arrays: Arrays) -> Array:
    """Return what both sides use, as float32; the same bits on every machine."""
    values, *affine = arrays
    if not affine:
        return values.astype(np.float32)
    low, step = (part[:, None, None] for part in affine)
    decoded: Array = low + step * values.astype(np.float32)
    return decoded
