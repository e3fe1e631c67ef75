"""Gaussian noise that nobody can predict or repeat: the only randomness that ignores the seed.

It comes from the operating system's cryptographic generator. An ordinary generator is not safe,
however it is seeded: if the true value is known (a weight that never moves), the sent value reveals
the noise itself. Enough of it determines the state of the generator, and with it all other noise.

It is a continuous distribution computed in double precision, not a discrete one that is sampled
exactly; docs/privacy.md says what that leaves open.
"""

import math
import secrets

import numpy as np
import numpy.typing as npt

BITS = 53  # the precision of a double


def gaussian(shape: tuple[int, ...], deviation: float) -> npt.NDArray[np.float64]:
    """Draw independent N(0, deviation^2) by Box and Muller's transform of uniform numbers."""
    count = math.prod(shape)
    pairs = (count + 1) // 2
    whole = np.frombuffer(secrets.token_bytes(16 * pairs), np.uint64) >> np.uint64(64 - BITS)
    uniform = (whole + 0.5) * 2.0**-BITS  # never 0
    radius, angle = np.sqrt(-2 * np.log(uniform[:pairs])), 2 * np.pi * uniform[pairs:]
    normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return deviation * normal[:count].reshape(shape)
