"""Key shares: enough of them give the secret, fewer say nothing, and odd ones are refused."""

import itertools
import os

import pytest

from fedmirage.common.secagg.shamir import INDEX, PRIME, VALUE, combine_shares, create_shares


def test_any_threshold_of_the_shares_gives_the_secret() -> None:
    secret = os.urandom(32)
    shares = create_shares(secret, 3, 6)
    for number in (3, 4, 6):
        for some in itertools.combinations(shares, number):
            assert combine_shares(list(reversed(some))) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_smallest_and_the_largest_secret(secret: bytes) -> None:
    assert combine_shares(create_shares(secret, 5, 9)[2:7]) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """By hand: the line through one share and any secret at 0 gives a share that fits."""
    first = create_shares(b"\x01" * 32, 2, 3)[0]
    value = int.from_bytes(first[INDEX:], "big")
    for secret in (b"\x02" * 32, bytes(32)):
        second = (2 * value - int.from_bytes(secret, "big")) % PRIME
        made = (2).to_bytes(INDEX, "little") + second.to_bytes(VALUE, "big")
        assert combine_shares([first, made]) == secret


def test_shares_are_drawn_afresh() -> None:
    secret = bytes(32)
    assert len({tuple(create_shares(secret, 2, 3)) for _ in range(20)}) == 20
    assert create_shares(secret, 1, 2)[0][INDEX:] == bytes(
        VALUE
    )  # a threshold of one hides nothing


def test_what_cannot_be_shared_or_combined_is_refused() -> None:
    shares = create_shares(os.urandom(32), 2, 4)
    with pytest.raises(ValueError, match="a secret of 33 bytes cannot be shared"):
        create_shares(bytes(33), 2, 4)
    with pytest.raises(ValueError, match="another length"):
        combine_shares([shares[0], shares[1][:-1]])
    for twice in ([shares[0], shares[0]], [bytes(INDEX) + shares[0][INDEX:], shares[1]]):
        with pytest.raises(ValueError, match="belong to the same point"):
            combine_shares(twice)
    largest = (2**256).to_bytes(VALUE, "big")
    with pytest.raises(ValueError, match="do not fit together"):
        combine_shares([(1).to_bytes(INDEX, "little") + largest])
