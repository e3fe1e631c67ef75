"""Keys of secure aggregation: what two clients have in common, sealed messages, tags and masks.

Keys are those of X25519, 32 bytes each. Two clients derive a key in common from their pairs, which
the server, which only passes public keys on, cannot compute. With it they seal what the server
carries between them, tag what they say, and draw the mask that they share.

Everybody knows how large the sum of a round can be, and so from how many bytes it can be told
(`SecAggOn.width`). Masks cancel modulo any power of two, so what is sent of a masked number is its
lowest bytes; the sum of these, without the masks, is the sum of the numbers.
"""

import hmac
import os
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedmirage.common.errors import WireError

KEY = 32  # bytes of a key, public or private
TAG = 32  # bytes
NONCE, OVERHEAD = 12, 28  # bytes before a sealed message, and bytes that sealing adds in all
WORD = 8  # bytes per masked number
BLOCK = 16  # bytes of AES
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

Steps = npt.NDArray[np.int64]  # numbers in whole steps of secure aggregation, modulo 2^64


def draw_private_key() -> bytes:
    """Draw a private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


@lru_cache(maxsize=8)  # a client agrees with everybody on the same few keys of its own
def read_private_key(private: bytes) -> X25519PrivateKey:
    """Read a private key, which costs a multiplication on the curve."""
    return X25519PrivateKey.from_private_bytes(private)


def find_public_key(private: bytes) -> bytes:
    """Compute the public key that belongs to a private one."""
    return read_private_key(private).public_key().public_bytes_raw()


def check_public_keys(data: Any, count: int) -> None:
    """Refuse what are no public keys, weak ones, second encodings, and equal ones."""
    if not isinstance(data, bytes) or len(data) != count * KEY:
        raise WireError(f"its message holds no {count} public keys of 32 bytes")
    keys = split(data, KEY)
    numbers = [int.from_bytes(key, "little") for key in keys]
    if any(number >= FIELD or number in WEAK for number in numbers):
        raise WireError("its public keys are not proper ones of X25519")
    if len(set(keys)) < len(keys):
        raise WireError("some of its public keys are the same")


def agree(private: bytes, public: bytes) -> bytes:
    """Compute the key that two clients have in common; raise ValueError for a weak public key."""
    secret = read_private_key(private).exchange(X25519PublicKey.from_public_bytes(public))
    return derive(secret, "key in common")


def derive(secret: bytes, purpose: str) -> bytes:
    """Derive a key for one purpose from a secret."""
    return hmac.digest(f"fedmirage {purpose}".encode(), secret, "sha256")


def seal(key: bytes, content: bytes, *context: bytes) -> bytes:
    """Seal a message for one context; few are sealed with a key, so a random nonce is enough."""
    nonce = os.urandom(NONCE)
    return nonce + AESGCM(derive(key, "seal")).encrypt(nonce, content, join(*context))


def unseal(key: bytes, sealed: bytes, *context: bytes) -> bytes | None:
    """Open what `seal` has sealed for the same context; None if it was changed."""
    try:
        cipher = AESGCM(derive(key, "seal"))
        return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], join(*context))
    except InvalidTag:
        return None


def make_tag(key: bytes, *parts: bytes) -> bytes:
    """Make the tag by which somebody with the same key knows who has said these things."""
    return hmac.digest(derive(key, "tag"), join(*parts), "sha256")


def draw_mask(secret: bytes, size: int) -> Steps:
    """Draw so many numbers, uniform modulo 2^64, with AES-256 in counter mode.

    Every secret is used for one mask only, so the counter may begin at 0.
    """
    stream = Cipher(AES(derive(secret, "mask")), CTR(bytes(BLOCK))).encryptor()
    words = np.zeros(size + BLOCK // WORD, dtype="<i8")  # the cipher insists on a free block
    content = words.data.cast("B")
    stream.update_into(content[: WORD * size], content)
    return words[:size]


def join(*parts: bytes) -> bytes:
    """Put parts together so that no other parts give the same."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def split(data: bytes, size: int) -> list[bytes]:
    """Split bytes into pieces of the same size."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def pack(numbers: Steps, width: int) -> bytes:
    """Write the lowest bytes of every number."""
    words = np.ascontiguousarray(numbers, "<i8")
    return np.ndarray(len(words), f"V{width}", words, strides=(WORD,)).tobytes()


def unpack(content: bytes, width: int) -> Steps:
    """Read numbers of so many bytes, none of which is negative."""
    words = np.zeros(len(content) // width, "<i8")
    lowest = np.ndarray(len(words), f"V{width}", words, strides=(WORD,))
    lowest[:] = np.frombuffer(content, f"V{width}")
    return words


def reduce(sums: Steps, width: int) -> Steps:
    """Reduce sums modulo the power of two of so many bytes, to numbers of the least size."""
    unused = 8 * (WORD - width)
    return (sums << unused) >> unused
