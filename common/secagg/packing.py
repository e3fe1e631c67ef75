"""Masked numbers in the bytes that they need.

Everybody knows how large the sum of a round can be, and so from how many bytes it can be told
(`SecAggOn.width`). Masks cancel modulo any power of two, so what is sent of a masked number is its
lowest bytes; the sum of these, without the masks, is the sum of the numbers.
"""

import numpy as np

from fedmirage.common.secagg.keys import WORD, Steps


def pack(numbers: Steps, width: int) -> bytes:
    """Write the lowest bytes of every number."""
    words = np.ascontiguousarray(numbers, "<i8")
    return np.ndarray(len(words), f"V{width}", words, strides=(WORD,)).tobytes()


def unpack(content: bytes, width: int) -> Steps:
    """Read numbers of so many bytes, none of which is negative."""
    words = np.zeros(len(content) // width, "<i8")
    lowest = np.ndarray(len(words), f"V{width}", words, strides=(WORD,))
    lowest[:] = np.frombuffer(content, f"V{width}")
    return words


def reduce(sums: Steps, width: int) -> Steps:
    """Reduce sums modulo the power of two of so many bytes, to numbers of the least size."""
    unused = 8 * (WORD - width)
    return (sums << unused) >> unused
