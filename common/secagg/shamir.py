"""Shamir's secret sharing of keys: any `threshold` of the shares give the secret, fewer nothing.

A key is one number modulo a prime: the constant term of a random polynomial. The share at a point
is the value of the polynomial there, and its holder's place says which point that is.
"""

import secrets
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations, islice
from math import prod

from fedmirage.common.secagg.keys import find_public_key

SECRET = 32  # bytes of a secret
PRIME = 2**256 + 297  # the smallest one above all secrets
SHARE = 33  # bytes of a share
ATTEMPTS = 1000  # sets of shares that are tried before false ones are given up


def create_shares(secret: bytes, threshold: int, number: int) -> list[bytes]:
    """Split a secret of 32 bytes into shares at the points 1, 2, ..., `number`."""
    # From the highest power to the constant term, as Horner's scheme wants them.
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret, "big"))
    shares = []
    for point in range(1, number + 1):
        value = 0
        for coefficient in coefficients:
            value = (value * point + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE, "big"))
    return shares


def is_share(data: bytes) -> bool:
    """Whether these bytes are the value of a polynomial modulo the prime."""
    return len(data) == SHARE and int.from_bytes(data, "big") < PRIME


def combine_shares(shares: Mapping[int, bytes]) -> bytes | None:
    """Recover the secret from the threshold's number of shares by point; None if they give none."""
    points = tuple(sorted(shares))
    weighed = (
        weight * int.from_bytes(shares[point], "big")
        for point, weight in zip(points, weigh_points(points), strict=True)
    )
    secret = sum(weighed) % PRIME
    return secret.to_bytes(SECRET, "big") if secret < 2 ** (8 * SECRET) else None


def recover_secret(
    shares: Mapping[int, bytes], threshold: int, public: bytes, doubted: set[int]
) -> bytes | None:
    """Recover the secret that has this public key, although some shares may be false.

    Whose shares had to be left out is added to `doubted`, and is asked last the next time.
    """
    trusted = sorted(shares, key=lambda point: (point in doubted, point))
    for chosen in islice(choose(trusted, threshold), ATTEMPTS):
        secret = combine_shares({point: shares[point] for point in chosen})
        if secret is not None and find_public_key(secret) == public:
            doubted |= set(trusted[: trusted.index(chosen[-1])]) - set(chosen)
            return secret
    return None


def choose(points: list[int], count: int) -> Iterator[list[int]]:
    """Choose so many points: the first ones, then without one of them, then without two, ..."""
    for without in range(len(points) - count + 1):
        for left_out in combinations(points[: count + without], without):
            yield [point for point in points if point not in left_out][:count]


@lru_cache(maxsize=32)  # unless clients are lost, the same points answer for everybody
def weigh_points(points: tuple[int, ...]) -> list[int]:
    """Compute with what weights a polynomial's values at these points give its value at 0."""
    return [
        prod(other for other in points if other != point)
        * pow(prod(other - point for other in points if other != point), -1, PRIME)
        % PRIME
        for point in points
    ]
