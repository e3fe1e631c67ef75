"""The keys by which clients know each other, so that the server cannot answer in a client's name.

Whoever passes the public keys of a round on could replace them with its own. A node that was given
the others' long-term keys beforehand notices it: `secagg-key` in its --node-config is its own
private key, and `secagg-peers` a folder with N.pub, the public key of the node that serves
partition N. Both are OpenSSH files of elliptic-curve keys, as `fedmirage key` writes them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import Context

from fedmirage.common.errors import FedmirageError
from fedmirage.common.secagg.keys import join
from fedmirage.common.secagg.protocol import RefusalError, SecureTask, write_number


@dataclass(frozen=True)
class Pins:
    """A node's own key and those of its peers; either may be missing, and then is not used."""

    key: Path | None
    peers: Path | None

    @classmethod
    def of(cls, context: Context) -> "Pins":
        """Read the node's configuration."""
        key, peers = (context.node_config.get(name) for name in ("secagg-key", "secagg-peers"))
        return cls(Path(str(key)) if key else None, Path(str(peers)) if peers else None)

    def sign(self, task: SecureTask, partition: int, keys: bytes) -> bytes:
        """Sign this client's public keys of one try; nothing if it has no key to do so."""
        if self.key is None:
            return b""
        own = read_key(self.key, lambda data: load_ssh_private_key(data, None))
        if not isinstance(own, EllipticCurvePrivateKey):
            raise FedmirageError(
                f"its secagg-key {self.key.name!r} is no elliptic-curve private key"
            )
        return own.sign(statement(task, partition, keys), ECDSA(SHA256()))

    def check(self, task: SecureTask, partition: int, keys: bytes, signature: Any) -> None:
        """Refuse public keys that the partition's owner has not signed, if peers are known."""
        if self.peers is None:
            return
        path = self.peers / f"{partition}.pub"
        peer = read_key(path, load_ssh_public_key)
        if not isinstance(peer, EllipticCurvePublicKey):
            raise FedmirageError(f"{path.name!r} (secagg-peers) is no elliptic-curve public key")
        try:
            if not isinstance(signature, bytes):
                raise InvalidSignature
            peer.verify(signature, statement(task, partition, keys), ECDSA(SHA256()))
        except InvalidSignature:
            raise RefusalError(
                f"the public keys of client {partition} are not signed with the key in"
                f" {path.name} (secagg-peers); does its node have secagg-key, and who sent them?",
                names=[partition],
            ) from None


def statement(task: SecureTask, partition: int, keys: bytes) -> bytes:
    """What is signed: these are a client's keys for this round of this run."""
    head = (b"fedmirage secagg keys", task.token.encode(), write_number(task.round), task.model)
    return join(*head, write_number(partition), keys)


def read_key(path: Path, load: Any) -> Any:
    """Read an OpenSSH file; the sentence travels, so it names no folder of the node."""
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FedmirageError(
            f"the key {path.name!r} cannot be read ({type(error).__name__}); secagg-key and"
            " secagg-peers take OpenSSH files without a passphrase"
        ) from None
