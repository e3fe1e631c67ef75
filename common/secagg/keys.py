"""Keys of secure aggregation: pairs, what two clients have in common, sealed messages and tags.

Flower agrees on keys with the curve P-384 and carries them as PEM text; X25519 with 32 raw bytes is
more than ten times as fast, and no text has to be parsed. The functions in the first part have the
names and arguments of Flower's, which replacements.py replaces.

Every pair of neighbours has a key in common, with which the key shares that travel between them are
sealed. A tag under that key cannot be made by the server, which only passes messages on.
"""

import hmac
import os
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedmirage.common.errors import WireError

KEY = 32  # bytes of a key, public or private
TAG = 32  # bytes
NONCE = 12  # bytes before a sealed message
# u-coordinates of the points whose order is at most 8: whatever the private key, the key in common
# with them is 0.
FIELD = 2**255 - 19
WEAK = {
    0,
    1,
    FIELD - 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
}

# In place of Flower's


def generate_key_pairs() -> tuple[X25519PrivateKey, X25519PublicKey]:
    """Draw a private key; return it with its public key."""
    private = X25519PrivateKey.generate()
    return private, private.public_key()


def private_key_to_bytes(private_key: X25519PrivateKey) -> bytes:
    """Write a private key as 32 bytes."""
    return private_key.private_bytes_raw()


def public_key_to_bytes(public_key: X25519PublicKey) -> bytes:
    """Write a public key as 32 bytes."""
    return public_key.public_bytes_raw()


@lru_cache(maxsize=1)  # Flower reads a client's own key once per neighbour, which costs a product
def bytes_to_private_key(private_key_bytes: bytes) -> X25519PrivateKey:
    """Read what `private_key_to_bytes` wrote; raise ValueError for another length."""
    return X25519PrivateKey.from_private_bytes(private_key_bytes)


def bytes_to_public_key(public_key_bytes: bytes) -> X25519PublicKey:
    """Read what `public_key_to_bytes` wrote; raise ValueError for another length."""
    return X25519PublicKey.from_public_bytes(public_key_bytes)


def generate_shared_key(private_key: X25519PrivateKey, public_key: X25519PublicKey) -> bytes:
    """Compute what two clients have in common; raise ValueError if the public key is weak."""
    return derive(private_key.exchange(public_key), "key in common")


def encrypt(key: bytes, plaintext: bytes) -> bytes:
    """Seal a message; a key seals one message in each direction, so a random nonce is enough."""
    nonce = os.urandom(NONCE)
    return nonce + AESGCM(derive(key, "seal")).encrypt(nonce, plaintext, None)


def decrypt(key: bytes, ciphertext: bytes) -> bytes:
    """Open what `encrypt` sealed; raise InvalidTag if it was changed."""
    nonce, sealed = ciphertext[:NONCE], ciphertext[NONCE:]
    return AESGCM(derive(key, "seal")).decrypt(nonce, sealed, None)


# Our own


def derive(secret: bytes, purpose: str) -> bytes:
    """Derive a key for one purpose from a secret."""
    return hmac.digest(f"fedmirage {purpose}".encode(), secret, "sha256")


def read_public_key(data: Any) -> bytes:
    """Return a public key; refuse what is none, weak ones, and a second encoding of the same."""
    if not isinstance(data, bytes) or len(data) != KEY:
        raise WireError("its message holds no public keys of 32 bytes")
    number = int.from_bytes(data, "little")
    if number >= FIELD or number in WEAK:
        raise WireError("its public keys are not proper ones of X25519")
    return data


def make_tag(shared_key: bytes, purpose: str, source: int, target: int, *parts: bytes) -> bytes:
    """Make the tag with which the source shows the target that it said these things."""
    words = [purpose.encode(), str(source).encode(), str(target).encode(), *parts]
    return hmac.digest(derive(shared_key, "tag"), join(*words), "sha256")


def join(*parts: bytes) -> bytes:
    """Put parts together so that no other parts give the same."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def is_tag(tag: Any, expected: bytes) -> bool:
    """Compare in constant time; anything may have been sent in place of a tag."""
    return isinstance(tag, bytes) and hmac.compare_digest(tag, expected)
