"""Replacements for functions of Flower's SecAgg+: the masks, and rounding there and back.

The masks come from AES-256 in counter mode. Flower's come from a Mersenne Twister with a seed of 32
bits, which can be found with 2^32 guesses (Flower issue 7522). Flower's rounding draws from numpy's
global generator and is limited to 31 bits; ours rounds to the nearest step, as fine as the sum
allows, so that one seed gives the same bits again. Flower turns the sum back into numbers with
divisions that may be wrong by a step if the sum has nearly 53 bits; ours stays whole. Flower
imports each function by name in one module per side, and `install` replaces it there.
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

MASKS = "masks"  # the key under which each side names its generator
GENERATOR = "aes256-ctr-1"
WORD = 8  # bytes per masked number


def mask(
    seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]
) -> list[npt.NDArray[np.int64]]:
    """Draw arrays of these shapes, uniform in 0 .. num_range - 1, from the whole seed.

    Flower determines the names of the arguments.
    """
    if num_range.bit_count() != 1:
        raise ValueError(f"masks are drawn modulo a power of two, not {num_range}")
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=GENERATOR.encode()).derive(seed)
    # Every key is used for one stream only, so the counter may begin at 0.
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
    """Map -clip .. clip to 0 .. target_range; Flower determines the names of the arguments."""
    steps = target_range / (2 * clipping_range)
    return [
        np.rint((np.clip(array, -clipping_range, clipping_range) + clipping_range) * steps).astype(
            np.int64
        )
        for array in parameters
    ]


def dequantize(
    quantized_parameters: list[npt.NDArray[np.int64]], clipping_range: float, target_range: int
) -> list[npt.NDArray[np.float64]]:
    """Leave the sums whole; append 1, which shows by what Flower multiplies them afterwards.

    Flower determines the names of the arguments, which are not needed.
    """
    return [array.astype(np.float64) for array in [*quantized_parameters, np.ones(1, np.int64)]]


def install(module: ModuleType, *replacements: Callable[..., Any]) -> None:
    """Make one of Flower's modules use these replacements."""
    for ours in replacements:
        theirs = {"mask": "pseudo_rand_gen"}.get(ours.__name__, ours.__name__)
        if not hasattr(module, theirs):
            raise ImportError(f"{module.__name__} has no {theirs} to replace; install flwr 1.34")
        setattr(module, theirs, ours)
