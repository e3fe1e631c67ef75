"""Shamir's secret sharing of keys: any `threshold` of the shares give the secret, fewer nothing.

Flower shares every 16 bytes of a key on their own, bit by bit in Python, which took seven tenths of
a secure round of 50 clients. Here a whole key is one number modulo a prime: the constant term of a
random polynomial, of which each share is the value at one point. The functions have the names and
arguments of Flower's, which replacements.py replaces.
"""

import secrets
from functools import lru_cache
from math import prod

SECRET = 32  # bytes of a secret
PRIME = 2**256 + 297  # the smallest one above all secrets
INDEX, VALUE = 4, 33  # bytes of a share: the point, and the polynomial's value there


def create_shares(secret: bytes, threshold: int, num: int) -> list[bytes]:
    """Split a secret of 32 bytes; the share at the point x is the x-th of the list, from 1."""
    if len(secret) != SECRET:
        raise ValueError(f"a secret of {len(secret)} bytes cannot be shared, only one of {SECRET}")
    # From the highest power to the constant term, as Horner's scheme wants them.
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients.append(int.from_bytes(secret, "big"))
    shares = []
    for point in range(1, num + 1):
        value = 0
        for coefficient in coefficients:
            value = (value * point + coefficient) % PRIME
        shares.append(point.to_bytes(INDEX, "little") + value.to_bytes(VALUE, "big"))
    return shares


def combine_shares(share_list: list[bytes]) -> bytes:
    """Recover the secret from the threshold's number of shares, or more."""
    if any(len(share) != INDEX + VALUE for share in share_list):
        raise ValueError("a key share has another length than those of this version")
    values = {
        int.from_bytes(share[:INDEX], "little"): int.from_bytes(share[INDEX:], "big")
        for share in share_list
    }
    if len(values) != len(share_list) or 0 in values:
        raise ValueError("some key shares belong to the same point")
    points = tuple(sorted(values))
    secret = sum(
        weight * values[point] for point, weight in zip(points, weigh_points(points), strict=True)
    )
    if secret % PRIME >= 2 ** (8 * SECRET):
        raise ValueError("the key shares do not fit together")
    return (secret % PRIME).to_bytes(SECRET, "big")


@lru_cache(maxsize=32)  # unless clients are lost, the same points answer for everybody
def weigh_points(points: tuple[int, ...]) -> list[int]:
    """Compute with what weights a polynomial's values at these points give its value at 0."""
    return [
        prod(other for other in points if other != point)
        * pow(prod(other - point for other in points if other != point), -1, PRIME)
        % PRIME
        for point in points
    ]
