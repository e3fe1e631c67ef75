"""The masks of secure aggregation: uniform, reproducible, and drawn from the whole seed."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.client.mod import secaggplus_mod
from flwr.server.workflow import SecAggPlusWorkflow

import client.secagg.mod  # noqa: F401 - installs the masks on the client's side
import server.messages.protocol  # noqa: F401 - and on the server's
from common.secagg.masks import GENERATOR, dequantize, install, mask, quantize

SHAPES = [(1,), (2, 3), (), (0,), (5,)]


def test_masks_have_the_shapes_and_the_range() -> None:
    found = mask(b"s" * 32, 2**48, SHAPES)
    assert [array.shape for array in found] == SHAPES
    assert all(array.dtype == np.int64 for array in found)
    (large,) = mask(b"s" * 32, 2**10, [(20000,)])
    assert large.min() == 0
    assert large.max() == 2**10 - 1
    assert (
        abs(np.bincount(large, minlength=2**10).std() - np.sqrt(20000 / 2**10)) < 0.5
    )  # as Poisson counts scatter


def test_masks_are_the_key_stream_of_aes() -> None:
    """By hand: 16 zero bytes encrypted in counter mode are two little-endian words."""
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=GENERATOR.encode()).derive(b"seed")
    stream = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    block = stream.update(bytes(16))
    words = [
        int.from_bytes(block[:8], "little") % 2**48,
        int.from_bytes(block[8:], "little") % 2**48,
    ]
    assert mask(b"seed", 2**48, [(2,)])[0].tolist() == words


def test_every_bit_of_the_seed_counts() -> None:
    """Flower's own generator folds the seed into 32 bits: these two seeds would give one mask."""
    one, other = bytes([1, 0, 0, 0, 2, 0, 0, 0]), bytes([2, 0, 0, 0, 1, 0, 0, 0])
    assert not np.array_equal(mask(one, 2**32, [(8,)])[0], mask(other, 2**32, [(8,)])[0])
    assert np.array_equal(mask(one, 2**32, [(8,)])[0], mask(one, 2**32, [(8,)])[0])


def test_the_modulus_must_be_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two, not 1000"):
        mask(b"seed", 1000, [(2,)])


def test_both_of_flowers_modules_draw_from_here() -> None:
    import sys

    assert sys.modules[secaggplus_mod.__module__].pseudo_rand_gen is mask  # type: ignore[attr-defined]
    assert sys.modules[SecAggPlusWorkflow.__module__].pseudo_rand_gen is mask  # type: ignore[attr-defined]
    assert sys.modules[secaggplus_mod.__module__].quantize is quantize  # type: ignore[attr-defined]
    assert sys.modules[SecAggPlusWorkflow.__module__].dequantize is dequantize  # type: ignore[attr-defined]


def test_another_flower_is_noticed() -> None:
    from types import ModuleType

    with pytest.raises(ImportError, match=r"has no pseudo_rand_gen to replace; install flwr 1\.34"):
        install(ModuleType("flwr.other"), mask)
