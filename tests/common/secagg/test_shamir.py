"""Key shares: enough of them give the secret, fewer say nothing, and false ones are found."""

import itertools
import os

import pytest

from fedmirage.common.secagg.keys import draw_private_key, find_public_key
from fedmirage.common.secagg.shamir import (
    PRIME,
    SHARE,
    combine_shares,
    create_shares,
    is_share,
    recover_secret,
)


def by_point(shares: list[bytes]) -> dict[int, bytes]:
    return dict(enumerate(shares, start=1))


def test_any_threshold_of_the_shares_gives_the_secret() -> None:
    secret = os.urandom(32)
    shares = by_point(create_shares(secret, 3, 6))
    for number in (3, 4, 6):
        for points in itertools.combinations(shares, number):
            assert combine_shares({point: shares[point] for point in reversed(points)}) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_smallest_and_the_largest_secret(secret: bytes) -> None:
    shares = by_point(create_shares(secret, 5, 9))
    assert combine_shares({point: shares[point] for point in range(3, 8)}) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """By hand: the line through one share and any secret at 0 gives a share that fits."""
    first = create_shares(b"\x01" * 32, 2, 3)[0]
    value = int.from_bytes(first, "big")
    for secret in (b"\x02" * 32, bytes(32)):
        second = (2 * value - int.from_bytes(secret, "big")) % PRIME
        assert combine_shares({1: first, 2: second.to_bytes(SHARE, "big")}) == secret


def test_shares_are_drawn_afresh() -> None:
    secret = bytes(32)
    assert len({tuple(create_shares(secret, 2, 3)) for _ in range(20)}) == 20
    assert create_shares(secret, 1, 2)[0] == bytes(SHARE)  # a threshold of one hides nothing


def test_what_is_no_share_is_seen() -> None:
    assert is_share(create_shares(os.urandom(32), 2, 4)[3])
    for odd in (b"", bytes(SHARE - 1), bytes(SHARE + 1), PRIME.to_bytes(SHARE, "big")):
        assert not is_share(odd)
    assert combine_shares({1: (2**256).to_bytes(SHARE, "big")}) is None


@pytest.mark.parametrize("false", [(), (1,), (5,), (1, 2), (2, 4)])
def test_false_shares_are_left_out(false: tuple[int, ...]) -> None:
    """Three of five give the secret; whoever sent a false one is asked last from then on."""
    secret, doubted = draw_private_key(), set[int]()
    public = find_public_key(secret)
    shares = by_point(create_shares(secret, 3, 5))
    shares |= {point: os.urandom(32).rjust(SHARE, b"\0") for point in false}
    assert recover_secret(shares, 3, public, doubted) == secret
    assert doubted <= set(false)
    assert recover_secret(shares, 3, public, {*false}) == secret


def test_too_many_false_shares_give_nothing() -> None:
    secret = draw_private_key()
    shares = by_point(create_shares(secret, 3, 5))
    shares |= {point: bytes(SHARE) for point in (1, 2, 3)}
    assert recover_secret(shares, 3, find_public_key(secret), set()) is None
    assert recover_secret({1: shares[5]}, 3, find_public_key(secret), set()) is None
