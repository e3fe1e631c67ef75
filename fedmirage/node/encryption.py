"""Asks whether a SuperLink has TLS before a node connects to it.

If only one of the two has it, Flower's node tries again for ever, or ends with a stack trace.
"""

import argparse
import socket
import ssl

from fedmirage.common.errors import FedmirageError

PATIENCE = 5.0  # seconds; a SuperLink that does not answer by then may do so later
USUAL = "127.0.0.1:9092"  # what Flower's default, 0.0.0.0:9092, means on this host


def require_same_encryption(arguments: list[str]) -> None:
    """Refuse a SuperLink with TLS for a node without, and the other way round.

    One that cannot be asked is left to Flower, which waits for it.
    """
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--superlink", default=USUAL)
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("-V", "--version", action="store_true")
    try:
        known, _ = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        return  # Flower says what is wrong
    if known.version:
        return
    encrypted = has_tls(known.superlink)
    if encrypted and known.insecure:
        raise FedmirageError(
            f"--superlink {known.superlink} --insecure: this SuperLink has TLS; write"
            " --root-certificates FILE, with the certificate of its authority, in place of"
            " --insecure"
        )
    if encrypted is False and not known.insecure:
        raise FedmirageError(
            f"--superlink {known.superlink}: this SuperLink has no TLS; start it with"
            " --ssl-ca-certfile, --ssl-certfile and --ssl-keyfile; if it has them, something"
            " between the two answers in its place"
        )


def has_tls(address: str) -> bool | None:
    """Return whether TLS is spoken at an address; None if nobody answers, or not in time."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # Flower looks at it later
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as connection,
            context.wrap_socket(connection),
        ):
            return True
    except ssl.SSLError as error:
        return False if error.reason == "WRONG_VERSION_NUMBER" else None
    except (OSError, ValueError):
        return None
