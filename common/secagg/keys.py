"""Public keys of secure aggregation, and tags that show a neighbour who wrote a message.

Every pair of neighbours has a key in common, with which Flower encrypts the key shares that travel
between them. A tag under that key cannot be made by the server, which only passes messages on.
"""

import hmac
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from common.errors import WireError

TAG = 32  # bytes


def read_public_key(data: Any) -> bytes:
    """Return a key's one canonical form; refuse what is no public key of Flower's curve."""
    try:
        key = load_pem_public_key(data)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise WireError("its message holds no public keys that can be read") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP384R1):
        raise WireError("its public keys are not of the curve secp384r1")
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def make_tag(shared_key: bytes, purpose: str, source: int, target: int, *parts: bytes) -> bytes:
    """Make the tag with which the source shows the target that it said these things."""
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"fedmirage tag").derive(shared_key)
    words = [purpose.encode(), str(source).encode(), str(target).encode(), *parts]
    return hmac.digest(key, join(*words), "sha256")


def join(*parts: bytes) -> bytes:
    """Put parts together so that no other parts give the same."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def is_tag(tag: Any, expected: bytes) -> bool:
    """Compare in constant time; anything may have been sent in place of a tag."""
    return isinstance(tag, bytes) and hmac.compare_digest(tag, expected)
