"""Asks a SuperLink for its certificate before a node connects to it.

If only one of the two has TLS, Flower's node tries again for ever; if it does not trust the
certificate, it ends with a stack trace.
"""

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedmirage.common.errors import FedmirageError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PATIENCE = 5.0  # seconds; a SuperLink that does not answer by then may do so later
OTHER_NAME = (62, 64)  # how OpenSSL calls a certificate for another name or another address
EXPIRED = (9, 10)  # not valid yet, or no longer


def require_same_encryption(superlink: str, insecure: bool, root: Path | None) -> None:
    """Refuse a SuperLink with TLS for a node without, and the other way round, and a certificate
    that the node does not trust.

    One that cannot be asked is left to Flower, which waits for it.
    """
    encrypted = has_tls(superlink)
    if encrypted and insecure:
        raise FedmirageError(
            f"--superlink {superlink} --insecure: this SuperLink has TLS; write"
            " --root-certificates FILE, with the certificate of its authority, in place of"
            " --insecure"
        )
    if encrypted is False and not insecure:
        raise FedmirageError(
            f"--superlink {superlink}: this SuperLink has no TLS; start it with"
            " --ssl-ca-certfile, --ssl-certfile and --ssl-keyfile; if it has them, something"
            " between the two answers in its place"
        )
    if encrypted and (problem := distrust(superlink, root)):
        raise FedmirageError(f"--superlink {superlink}: {problem}")


def has_tls(address: str) -> bool | None:
    """Return whether TLS is spoken at an address; None if nobody answers, or not in time."""
    try:
        connect(address, trustful())
        return True
    except ssl.SSLError as error:
        return False if error.reason == "WRONG_VERSION_NUMBER" else None
    except (OSError, ValueError):
        return None


def distrust(address: str, root: Path | None) -> str:
    """Say why a node should not trust the certificate of a SuperLink; empty if it may."""
    try:
        connect(address, ssl.create_default_context(cafile=root and str(root.expanduser())))
    except ssl.SSLCertVerificationError as error:
        host = address.rpartition(":")[0]
        if error.verify_code in OTHER_NAME:
            return (
                f"its certificate is not for the name {host}; use a name that it has, or let it be"
                f" made anew for this one (fedmirage superlink --host {host})"
            )
        if error.verify_code in EXPIRED:
            return (
                f"its certificate {say_validity(address)}; whoever runs it deletes server.crt and"
                " server.key, and starts it again to have another made"
            )
        if root is None:
            return (
                "no authority that this machine knows has signed its certificate; write"
                " --root-certificates FILE, with the certificate of its authority (ca.crt)"
            )
        return (
            f"the authority in {root} has not signed its certificate; get the certificate of its"
            " authority (ca.crt) from whoever runs it"
        )
    except (OSError, ValueError):
        return ""  # Flower tries again
    return ""


def say_validity(address: str) -> str:
    """Say until or from when the certificate of a SuperLink is valid, if it is not today."""
    from cryptography.x509 import load_der_x509_certificate

    try:
        shown = load_der_x509_certificate(connect(address, trustful()) or b"")
    except (OSError, ValueError):
        return "is not valid today"
    return find_expired(shown)


def find_expired(certificate: "Certificate") -> str:
    """Say since when a certificate is no longer valid, or from when it will be; empty if it is."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    today = datetime.now(UTC)
    if end < today:
        return f"expired on {end:%Y-%m-%d}"
    return f"is valid from {begin:%Y-%m-%d} on only" if begin > today else ""


def trustful() -> ssl.SSLContext:
    """Make the context of who only looks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connect(address: str, context: ssl.SSLContext) -> bytes | None:
    """Shake hands with whoever listens at an address, and return the certificate that it shows."""
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((name, int(port)), PATIENCE) as connection,
        context.wrap_socket(
            connection, server_hostname=name if context.check_hostname else None
        ) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True)
