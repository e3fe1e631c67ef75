"""How global images travel: what is decoded is what both sides use."""

import numpy as np
import pytest

from fedmirage.common.methods.fedlgd.images import decode, encode
from fedmirage.common.wire.payload import Arrays, pack


def images(scale: float = 1.0) -> np.ndarray:
    generator = np.random.default_rng(0)
    return (scale * generator.standard_normal((4, 3, 5, 7))).astype(np.float32)


def bytes_of(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays)


def test_single_precision_is_exact_and_half_has_eleven_bits() -> None:
    assert decode(encode(images(), "single")).tobytes() == images().tobytes()
    half = decode(encode(images(), "half"))
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, images(), rtol=2**-11)
    assert bytes_of(encode(images(), "half")) * 2 == images().nbytes


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_bytes_are_half_a_step_off_at_most_in_every_channel(scale: float) -> None:
    """One channel is ten times as wide as the others: it has a step of its own."""
    given = images(scale)
    given[:, 1] *= 10
    arrays = encode(given, "byte")
    assert [array.shape for array in arrays] == [given.shape, (3,), (3,)]
    assert arrays[0].dtype == np.uint8
    found = decode(arrays)
    assert found.dtype == np.float32
    for channel in range(3):
        step = np.ptp(given[:, channel]) / 255
        assert np.abs(found - given)[:, channel].max() <= 0.501 * step


def test_a_channel_of_one_colour_is_exact() -> None:
    given = images()
    given[:, 2] = 0.25
    assert (decode(encode(given, "byte"))[:, 2] == 0.25).all()


def test_a_message_holds_plain_arrays() -> None:
    flat, layout = pack({"global-images": encode(images(), "byte")})
    assert layout == "global-images:3"
    assert all(array.flags.c_contiguous for array in flat)
