"""Gaussian noise that nobody can foresee or repeat: the one kind of randomness here that does not
follow from the seed.

It comes from the operating system's cryptographic generator. An ordinary generator, however it is
seeded, would not do: where the true value is known (a weight that never moves), what is sent shows
the noise itself, and from enough of it the generator's state, and so all the rest of the noise, can
be computed.
"""

import math
import secrets

import numpy as np
import numpy.typing as npt

BITS = 53  # of a double's fraction


def gaussian(shape: tuple[int, ...], deviation: float) -> npt.NDArray[np.float64]:
    """Independent N(0, deviation^2), by Box and Muller's transform of uniform numbers."""
    count = math.prod(shape)
    pairs = (count + 1) // 2
    whole = np.frombuffer(secrets.token_bytes(16 * pairs), np.uint64) >> np.uint64(64 - BITS)
    uniform = (whole + 0.5) * 2.0**-BITS  # never 0
    radius, angle = np.sqrt(-2 * np.log(uniform[:pairs])), 2 * np.pi * uniform[pairs:]
    normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return deviation * normal[:count].reshape(shape)
