"""Keys in common, sealed messages, tags, masks and their bytes, public keys that are refused."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.keys import (
    FIELD,
    WEAK,
    agree,
    check_public_keys,
    derive,
    draw_mask,
    draw_private_key,
    find_public_key,
    make_tag,
    pack,
    reduce,
    seal,
    unpack,
    unseal,
)
from fedmirage.common.secagg.settings import SecAggOn

SIZE = 1000  # numbers of a vector


def test_two_clients_have_one_key_in_common() -> None:
    hers, his = draw_private_key(), draw_private_key()
    common = agree(hers, find_public_key(his))
    assert common == agree(his, find_public_key(hers))
    assert common != agree(hers, find_public_key(hers))


def test_a_sealed_message_is_opened_by_the_same_key_in_the_same_context_only() -> None:
    sealed = seal(b"k" * 32, b"a message", b"from", b"to")
    assert unseal(b"k" * 32, sealed, b"from", b"to") == b"a message"
    assert sealed != seal(b"k" * 32, b"a message", b"from", b"to")
    assert unseal(b"j" * 32, sealed, b"from", b"to") is None
    assert unseal(b"k" * 32, sealed, b"fro", b"mto") is None
    assert unseal(b"k" * 32, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"from", b"to") is None


def test_a_tag_depends_on_everything_that_it_vouches_for() -> None:
    tags = {
        make_tag(b"key", b"survivors", b"1", b"2", b"ab", b"c"),
        make_tag(b"yek", b"survivors", b"1", b"2", b"ab", b"c"),
        make_tag(b"key", b"survivors", b"2", b"1", b"ab", b"c"),
        make_tag(b"key", b"survivors", b"1", b"2", b"a", b"bc"),
    }
    assert len(tags) == 4


@pytest.mark.parametrize("number", sorted(WEAK))
def test_weak_public_keys_are_refused(number: int) -> None:
    """The key in common with them does not depend on the private key."""
    weak = number.to_bytes(32, "little")
    with pytest.raises(WireError, match="not proper ones of X25519"):
        check_public_keys(weak, 1)
    with pytest.raises(ValueError, match="shared key"):
        agree(draw_private_key(), weak)


@pytest.mark.parametrize("bit", [0, 2**255])
def test_a_second_encoding_of_a_key_is_refused(bit: int) -> None:
    """X25519 ignores the highest bit and reduces modulo the field: 9 has four encodings or so."""
    private = draw_private_key()
    nine = (9).to_bytes(32, "little")
    other = (bit + 9 if bit else FIELD + 9).to_bytes(32, "little")
    assert agree(private, nine) == agree(private, other)
    check_public_keys(nine, 1)
    with pytest.raises(WireError, match="not proper ones of X25519"):
        check_public_keys(other, 1)


@pytest.mark.parametrize("data", ["text", b"", bytes(31), bytes(33), None])
def test_what_is_no_public_key_is_refused(data: object) -> None:
    with pytest.raises(WireError, match="no 1 public keys of 32 bytes"):
        check_public_keys(data, 1)


def test_a_mask_is_the_stream_of_aes_in_counter_mode() -> None:
    secret = b"s" * 32
    cipher = Cipher(algorithms.AES(derive(secret, "mask")), modes.CTR(bytes(16))).encryptor()
    expected = np.frombuffer(cipher.update(bytes(8 * 7)), "<i8")
    assert np.array_equal(draw_mask(secret, 7), expected)
    assert np.array_equal(draw_mask(secret, 3), expected[:3])
    assert not np.array_equal(draw_mask(b"t" * 32, 7), expected)


def test_masks_are_uniform_and_their_sums_cancel() -> None:
    drawn = [draw_mask(b"%d" % number, 1000) for number in range(50)]
    parts = np.concatenate(drawn).astype(np.float64) / 2**63
    assert abs(parts.mean()) < 0.02
    assert abs(parts.std() - np.sqrt(1 / 3)) < 0.01
    total = np.sum(drawn, axis=0)
    for part in drawn:
        total -= part
    assert not total.any()


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
