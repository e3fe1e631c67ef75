"""The masks of secure aggregation: uniform, reproducible, and drawn from the whole seed."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flwr.client.mod import secaggplus_mod
from flwr.server.workflow import SecAggPlusWorkflow

import fedmirage.client.secagg.mod
import fedmirage.server.messages.protocol  # noqa: F401 - and on the server's
from fedmirage.common.secagg.keys import derive
from fedmirage.common.secagg.masks import GENERATOR, add, mask, subtract
from fedmirage.common.secagg.replacements import ON_THE_CLIENT, ON_THE_SERVER, install

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
    stream = Cipher(algorithms.AES(derive(b"seed", GENERATOR)), modes.ECB()).encryptor()
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


@pytest.mark.parametrize(
    ("module", "replacements"),
    [(secaggplus_mod.__module__, ON_THE_CLIENT), (SecAggPlusWorkflow.__module__, ON_THE_SERVER)],
)
def test_both_of_flowers_modules_use_our_functions(
    module: str, replacements: dict[str, Any]
) -> None:
    found = {name: getattr(sys.modules[module], name) for name in replacements}
    assert found == replacements


def test_another_flower_is_noticed() -> None:
    with pytest.raises(ImportError, match=r"has no pseudo_rand_gen to replace; install flwr 1\.34"):
        install(ModuleType("flwr.other"), ON_THE_SERVER)


def test_sums_of_masks_cancel_beyond_64_bits() -> None:
    """Hundreds of masks overflow; what is left of them below the modulus still cancels."""
    zero = [np.zeros(5, np.int64)]
    drawn = [mask(b"%d" % number, 2**53, [(5,)]) for number in range(3000)]
    for part in drawn:
        add(zero, part)
    exact = [sum(int(part[0][place]) for part in drawn) for place in range(5)]
    assert max(exact) > 2**63
    assert (zero[0] % 2**53).tolist() == [number % 2**53 for number in exact]
    for part in drawn:
        subtract(zero, part)
    assert zero[0].tolist() == [0] * 5
