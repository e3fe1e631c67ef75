"""Keys in common, sealed messages, tags, and public keys that are refused."""

import pytest
from cryptography.exceptions import InvalidTag

from fedmirage.common.errors import WireError
from fedmirage.common.secagg.keys import (
    FIELD,
    WEAK,
    bytes_to_private_key,
    bytes_to_public_key,
    decrypt,
    encrypt,
    generate_key_pairs,
    generate_shared_key,
    make_tag,
    private_key_to_bytes,
    public_key_to_bytes,
    read_public_key,
)


def test_two_clients_have_one_key_in_common() -> None:
    (one, her), (other, his) = generate_key_pairs(), generate_key_pairs()
    written = bytes_to_private_key(private_key_to_bytes(one))
    common = generate_shared_key(written, bytes_to_public_key(public_key_to_bytes(his)))
    assert common == generate_shared_key(other, her)
    assert common != generate_shared_key(one, her)


def test_a_sealed_message_is_opened_by_the_same_key_only() -> None:
    sealed = encrypt(b"k" * 32, b"a message")
    assert decrypt(b"k" * 32, sealed) == b"a message"
    assert sealed != encrypt(b"k" * 32, b"a message")
    for key, changed in ((b"j" * 32, sealed), (b"k" * 32, sealed[:-1] + bytes([sealed[-1] ^ 1]))):
        with pytest.raises(InvalidTag):
            decrypt(key, changed)


def test_a_tag_depends_on_everything_that_it_vouches_for() -> None:
    tags = {
        make_tag(b"key", "shares", 1, 2, b"ab", b"c"),
        make_tag(b"yek", "shares", 1, 2, b"ab", b"c"),
        make_tag(b"key", "survivors", 1, 2, b"ab", b"c"),
        make_tag(b"key", "shares", 2, 1, b"ab", b"c"),
        make_tag(b"key", "shares", 1, 2, b"a", b"bc"),
    }
    assert len(tags) == 5


@pytest.mark.parametrize("number", sorted(WEAK))
def test_weak_public_keys_are_refused(number: int) -> None:
    """The key in common with them does not depend on the private key."""
    weak = number.to_bytes(32, "little")
    with pytest.raises(WireError, match="not proper ones of X25519"):
        read_public_key(weak)
    with pytest.raises(ValueError, match="shared key"):
        generate_shared_key(generate_key_pairs()[0], bytes_to_public_key(weak))


@pytest.mark.parametrize("bit", [0, 2**255])
def test_a_second_encoding_of_a_key_is_refused(bit: int) -> None:
    """X25519 ignores the highest bit and reduces modulo the field: 9 has four encodings or so."""
    private, _ = generate_key_pairs()
    nine = (9).to_bytes(32, "little")
    other = (bit + 9 if bit else FIELD + 9).to_bytes(32, "little")
    common = generate_shared_key(private, bytes_to_public_key(nine))
    assert common == generate_shared_key(private, bytes_to_public_key(other))
    assert read_public_key(nine) == nine
    with pytest.raises(WireError, match="not proper ones of X25519"):
        read_public_key(other)


@pytest.mark.parametrize("data", ["text", b"", bytes(31), bytes(33), None])
def test_what_is_no_public_key_is_refused(data: object) -> None:
    with pytest.raises(WireError, match="no public keys of 32 bytes"):
        read_public_key(data)
