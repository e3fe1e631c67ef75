"""Makes the certificates of a SuperLink: an authority, and a certificate that it signs.

    ca.crt, ca.key          the authority that everybody trusts; ca.key signs and stays secret
    server.crt, server.key  the SuperLink's own

What exists is kept.
"""

import ipaddress
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import FedmirageError, reason

AUTHORITY, AUTHORITY_KEY, SERVER, SERVER_KEY = "ca.crt", "ca.key", "server.crt", "server.key"
ALWAYS = ("superlink", "localhost", "127.0.0.1")  # for this machine itself, and for containers
AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def make_certificates(folder: Path, hosts: Sequence[str]) -> list[str]:
    """Make what is missing for these names and addresses of the SuperLink; say what was made."""
    said: list[str] = []
    if not (folder / SERVER).exists():
        names = [name_host(host) for host in dict.fromkeys([*ALWAYS, *hosts])]
        if not (folder / AUTHORITY).exists():
            make_authority(folder)
            said.append(f"made {folder / AUTHORITY}: give it to every site; {AUTHORITY_KEY} signs")
        make_server(folder, names)
        shown = ", ".join(str(name.value) for name in names)
        said.append(f"made {folder / SERVER} for {shown}, valid for {SERVER_DAYS} days")
    elif missing := [host for host in hosts if name_host(host) not in read_names(folder / SERVER)]:
        raise FedmirageError(
            f"--host {missing[0]}: {folder / SERVER} is for"
            f" {', '.join(str(name.value) for name in read_names(folder / SERVER))}; delete it and"
            f" {SERVER_KEY} to have another made for all hosts that you then name"
        )
    return said


def own_names() -> list[str]:
    """Return the names by which this machine knows itself, for who names none."""
    return list(dict.fromkeys([socket.gethostname(), socket.getfqdn()]))


def name_host(host: str) -> x509.GeneralName:
    """Make the entry of a certificate for a name or an address, with or without brackets."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return x509.IPAddress(ipaddress.ip_address(bare))
    except ValueError:
        pass
    labels = bare.split(".")
    if ":" in bare or labels[-1].isdecimal() or not all(map(is_label, labels)):
        raise FedmirageError(
            f"--host {host} is neither a name nor an address; write e.g. fl.example.org, 192.0.2.7"
            " or 2001:db8::7"
        )
    return x509.DNSName(bare)


def is_label(text: str) -> bool:
    """Whether a text may stand between the dots of a name."""
    bare = text.replace("-", "").replace("_", "")
    return text.isascii() and bare.isalnum() and len(text) <= 63


def read_names(path: Path) -> list[x509.GeneralName]:
    """Read for which names and addresses a certificate is."""
    try:
        found = read_certificate(path).extensions
        return list(found.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def read_certificate(path: Path) -> x509.Certificate:
    """Read a certificate, or refuse the file with a sentence."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FedmirageError(f"{path} cannot be read as a certificate: {reason(error)}") from None


def make_authority(folder: Path) -> None:
    """Make an authority that signs itself."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedmirage CA")])
    made = _begin(name, name, key, AUTHORITY_DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made = made.add_extension(_allow("key_cert_sign", "crl_sign"), critical=True)
    _write(folder, AUTHORITY, AUTHORITY_KEY, made.sign(key, hashes.SHA256()), key)


def make_server(folder: Path, names: Sequence[x509.GeneralName]) -> None:
    """Make the certificate of the SuperLink, signed by the authority."""
    authority = read_certificate(folder / AUTHORITY)
    try:
        content = (folder / AUTHORITY_KEY).read_bytes()
        signer = serialization.load_pem_private_key(content, None)
    except (OSError, ValueError, TypeError) as error:
        raise FedmirageError(
            f"{folder / AUTHORITY_KEY} cannot sign ({reason(error)}); put the key of"
            f" {AUTHORITY} there, or delete {AUTHORITY} to have another made, which then every"
            " site needs"
        ) from None
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "superlink")])
    made = _begin(subject, authority.subject, key, SERVER_DAYS)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_allow("digital_signature"), critical=True)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    made = made.add_extension(usage, critical=False)
    made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    whose = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())  # type: ignore[arg-type]
    made = made.add_extension(whose, critical=False)
    signed = made.sign(signer, hashes.SHA256())  # type: ignore[arg-type]
    _write(folder, SERVER, SERVER_KEY, signed, key)


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _allow(*usages: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in usages for usage in USAGES})


def _write(
    folder: Path,
    certificate_name: str,
    key_name: str,
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    folder.mkdir(parents=True, exist_ok=True)
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    write_whole(folder / key_name, secret, private=True)
    write_whole(folder / certificate_name, certificate.public_bytes(pem))
