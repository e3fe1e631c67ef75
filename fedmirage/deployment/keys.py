"""The key pair of a site: made on its own host, and known elsewhere by its public half only."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import FedmirageError, reason
from fedmirage.common.site_names import RULE, is_site_name


@dataclass(frozen=True)
class PublicKey:
    """The public key of a site, whose name its file has; a number is a partition and no name."""

    path: Path
    content: bytes  # as the SuperLink keeps it

    @property
    def partition(self) -> int | None:
        """The partition that the file name says, if it says one."""
        return int(self.path.stem) if self.path.stem.isdecimal() else None

    @property
    def name(self) -> str:
        """The name of the site; empty if the file is named by a partition."""
        return "" if self.path.stem.isdecimal() else self.path.stem


def make_key(path: Path) -> tuple[Path, Path]:
    """Make a key pair, the private half readable by its owner only; return both files."""
    public = path.with_name(f"{path.name}.pub")
    check_stem(public)
    for file in (path, public):
        if file.exists():
            raise FedmirageError(
                f"{file} exists, and no key is ever overwritten; use it, or choose another name"
            )
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_whole(path, secret, private=True)
    write_whole(public, shown + f" {path.name}\n".encode())
    return path, public


def read_key(path: Path) -> PublicKey:
    """Read the public key of a site, or refuse the file with a sentence."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedmirageError(f"{reason(error)}; write the file of a public key") from None
    if b"PRIVATE KEY" in content:
        raise FedmirageError(
            f"{path} is a private key, which must never leave its site: make another pair there,"
            " and admit the file that ends with .pub"
        )
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FedmirageError(
            f"{path} is not a public key ({reason(error)}); `fedmirage key NAME` makes NAME.pub on"
            " the site's host"
        ) from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise FedmirageError(
            f"{path} is a key of another kind than nodes have; `fedmirage key NAME` makes one"
        )
    check_stem(path)
    return PublicKey(path, public_key_to_bytes(key))


def check_stem(path: Path) -> None:
    """Refuse a file whose name is neither that of a site nor a partition."""
    stem = path.name.removesuffix(".pub")
    number = stem.isascii() and stem.isdecimal() and stem == str(int(stem))
    if not path.name.endswith(".pub") or not (number or is_site_name(stem)):
        raise FedmirageError(
            f"{path} must be called by its site, e.g. site-a.pub, or by its partition, e.g. 0.pub;"
            f" for a name, {RULE}"
        )
