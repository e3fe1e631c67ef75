"""Two parts of Flower's SecAgg+ that are replaced, because it imports them by name in one module a
side.

The generator of the masks: AES-256 in counter mode. Flower's own is a Mersenne Twister with 32 bits
of seed, which 2^32 guesses open (Flower issue 7522). And the rounding: Flower's draws from numpy's
ambient generator and ends at 31 bits; ours takes the nearest number on a grid as fine as the sum
allows, so that one seed gives the same bits again.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MASKS = "masks"  # the key under which both sides say which generator they have
GENERATOR = "aes256-ctr-1"
WORD = 8  # bytes of a masked number


def mask(
    seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]
) -> list[npt.NDArray[np.int64]]:
    """Arrays of these shapes, uniform in 0 .. num_range - 1; the whole seed counts. Names as Flower
    calls it."""
    if num_range.bit_count() != 1:
        raise ValueError(f"masks are drawn modulo a power of two, not {num_range}")
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=GENERATOR.encode()).derive(seed)
    # every key is used for one stream only, and so the counter may begin at 0
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor()
    arrays = []
    for shape in dimensions_list:
        size = int(np.prod(shape, dtype=np.int64))
        words = np.frombuffer(stream.update(bytes(WORD * size)), dtype="<u8") & np.uint64(
            num_range - 1
        )
        arrays.append(words.astype(np.int64).reshape(shape))
    return arrays


def quantize(
    parameters: list[npt.NDArray[np.float64]], clipping_range: float, target_range: int
) -> list[npt.NDArray[np.int64]]:
    """-clip .. clip as 0 .. target_range. Names as Flower calls it."""
    steps = target_range / (2 * clipping_range)
    return [
        np.rint((np.clip(array, -clipping_range, clipping_range) + clipping_range) * steps).astype(
            np.int64
        )
        for array in parameters
    ]


def install(module: ModuleType, *replacements: Callable[..., Any]) -> None:
    """Let one of Flower's modules use what is here."""
    for ours in replacements:
        theirs = {"mask": "pseudo_rand_gen"}.get(ours.__name__, ours.__name__)
        if not hasattr(module, theirs):
            raise ImportError(
                f"{module.__name__} no longer has {theirs}; this project needs flwr 1.34"
            )
        setattr(module, theirs, ours)
