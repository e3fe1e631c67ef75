"""Masked numbers in the bytes that they need: the sums are those of eight bytes."""

import numpy as np
import pytest

from fedmirage.common.secagg.keys import draw_mask, pack, reduce, unpack
from fedmirage.common.secagg.settings import SecAggOn

SIZE = 1000


@pytest.mark.parametrize(
    ("clients", "bits", "width"),
    [(3, 16, 3), (127, 17, 3), (128, 17, 4), (5, 40, 6), (255, 40, 6), (256, 40, 7), (31, 48, 7)],
)
def test_every_possible_sum_has_room(clients: int, bits: int, width: int) -> None:
    """The largest vectors of a round, and random ones, masked and added up as 64-bit integers too.

    127 vectors of 17 bits need 24: 127 * 2^17 < 2^24 = 128 * 2^17.
    """
    secagg = SecAggOn(bits=bits, clip=1e-4, max_examples=1)
    assert secagg.width(clients) == width
    most = 2 ** (bits - 1)
    vectors = np.random.default_rng(0).integers(-most, most, (clients, SIZE), endpoint=True)
    vectors[:, 0], vectors[:, 1] = most, -most
    masks = [draw_mask(bytes([who, 0]), SIZE) for who in range(256)][:clients]
    masks += [masks[0]] * (clients - len(masks))
    masked = [vector + mask for vector, mask in zip(vectors, masks, strict=True)]
    sent = [pack(one, width) for one in masked]
    assert {len(one) for one in sent} == {width * SIZE}
    long = np.sum(masked, axis=0) - np.sum(masks, axis=0)
    short = np.sum([unpack(one, width) for one in sent], axis=0) - np.sum(masks, axis=0)
    assert reduce(short, width).tobytes() == long.tobytes() == vectors.sum(axis=0).tobytes()


@pytest.mark.parametrize("width", range(2, 8))
def test_what_is_packed_is_the_lowest_bytes_first_byte_first(width: int) -> None:
    numbers = np.array([0x0102030405060708, -2], np.int64)
    assert pack(numbers, width) == bytes([8, 7, 6, 5, 4, 3, 2])[:width] + b"\xfe" + b"\xff" * (
        width - 1
    )
    assert reduce(unpack(pack(numbers, width), width), width)[1] == -2
    assert len(unpack(pack(numbers[:0], width), width)) == 0
