"""Differential privacy on the client.

The update is bounded, and under `local` also covered by noise, before anything is packed.
"""

import math

import numpy as np
from flwr.common import Scalar

from client.round import LocalRound
from common.dp.noise import gaussian
from common.dp.settings import DpOn, LocalDp
from common.wire.figures import CLIPPED
from common.wire.payload import SHARED, Arrays, Sections


def protect(
    dp: DpOn,
    local: LocalRound,
    sections: Sections,
    examples: int,
    metrics: dict[str, Scalar],
) -> tuple[Sections, int, dict[str, Scalar]]:
    """Return what may leave this client: its sections, its number of examples and its figures."""
    noise = dp.noise if isinstance(dp, LocalDp) else 0.0
    shared, clipped = bound_update(sections[SHARED], local.broadcast, dp.clip, noise)
    sent = {**sections, SHARED: shared}
    if isinstance(dp, LocalDp):  # beside the update, the server learns only whether it trained
        return sent, int(examples > 0), {}
    return sent, examples, {**metrics, CLIPPED: int(clipped)}


def bound_update(
    arrays: Arrays, reference: Arrays, clip: float, noise: float
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
