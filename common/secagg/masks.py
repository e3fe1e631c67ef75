"""Replacements for functions of Flower's SecAgg+: the masks, and rounding there and back.

The masks come from AES-256 in counter mode. Flower's come from a Mersenne Twister with a seed of 32
bits, which can be found with 2^32 guesses (Flower issue 7522). Flower's rounding draws from numpy's
global generator and is limited to 31 bits; ours rounds to the nearest step, as fine as the sum
allows, so that one seed gives the same bits again. Flower turns the sum back into numbers with
divisions that may be wrong by a step if the sum has nearly 53 bits; ours stays whole. Flower
determines the names of all arguments.
"""

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedmirage.common.secagg.keys import derive

MASKS = "masks"  # the key under which each side names its generator
GENERATOR = "aes256-ctr-2"  # also stands for the version of the keys and shares
WORD = 8  # bytes per masked number
BLOCK = 16  # bytes of AES

Vectors = list[npt.NDArray[np.int64]]


def mask(seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]) -> Vectors:
    """Draw arrays of these shapes, uniform in 0 .. num_range - 1, from the whole seed."""
    if num_range.bit_count() != 1:
        raise ValueError(f"masks are drawn modulo a power of two, not {num_range}")
    # Every key is used for one stream only, so the counter may begin at 0.
    stream = Cipher(AES(derive(seed, GENERATOR)), CTR(bytes(BLOCK))).encryptor()
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in dimensions_list]
    words = np.zeros(sum(sizes) + BLOCK // WORD, dtype="<i8")  # the cipher insists on a free block
    content = words.data.cast("B")
    stream.update_into(content[: WORD * sum(sizes)], content)
    words &= num_range - 1
    ends = np.cumsum(sizes)
    return [
        words[end - size : end].reshape(shape)
        for end, size, shape in zip(ends, sizes, dimensions_list, strict=True)
    ]


def add(parameters1: Vectors, parameters2: Vectors) -> Vectors:
    """Add in place: Flower uses neither its first argument nor a copy of it afterwards."""
    for total, other in zip(parameters1, parameters2, strict=True):
        total += other
    return parameters1


def subtract(parameters1: Vectors, parameters2: Vectors) -> Vectors:
    """Subtract in place; what leaves 64 bits is lost on both sides of the modulus alike."""
    for total, other in zip(parameters1, parameters2, strict=True):
        total -= other
    return parameters1


def quantize(
    parameters: list[npt.NDArray[np.float64]], clipping_range: float, target_range: int
) -> Vectors:
    """Map -clip .. clip to 0 .. target_range."""
    steps = target_range / (2 * clipping_range)
    return [
        np.rint((np.clip(array, -clipping_range, clipping_range) + clipping_range) * steps).astype(
            np.int64
        )
        for array in parameters
    ]


def dequantize(
    quantized_parameters: Vectors, clipping_range: float, target_range: int
) -> list[npt.NDArray[np.float64]]:
    """Leave the sums whole; append 1, which shows by what Flower multiplies them afterwards.

    The other arguments are not needed.
    """
    return [array.astype(np.float64) for array in [*quantized_parameters, np.ones(1, np.int64)]]
