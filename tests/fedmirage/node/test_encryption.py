"""A node and a SuperLink of which only one has TLS are told apart before they meet."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedmirage.common.errors import FedmirageError
from fedmirage.node import encryption
from fedmirage.node.encryption import has_tls, require_same_encryption
from fedmirage.runtimes.grpc import free_addresses


def make_certificate() -> tuple[bytes, bytes]:
    """Make a key, and a certificate that it has signed itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, *form), builder.sign(key, hashes.SHA256()).public_bytes(pem)


@pytest.fixture(scope="module", params=[False, True])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    """The address of a gRPC server, and whether it has TLS."""
    (address,) = free_addresses(1)
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        if request.param:
            server.add_secure_port(address, grpc.ssl_server_credentials([make_certificate()]))
        else:
            server.add_insecure_port(address)
        server.start()
        yield address, request.param
        server.stop(None)


def test_only_the_same_on_both_sides_is_accepted(server: tuple[str, bool]) -> None:
    address, encrypted = server
    assert has_tls(address) is encrypted
    with_tls = [f"--superlink={address}", "--root-certificates", "ca.crt"]
    without = ["--superlink", address, "--insecure", "--node-config", "partition-id=0"]
    fits, differs = (with_tls, without) if encrypted else (without, with_tls)
    require_same_encryption(fits)
    told = "has TLS; write --root-certificates" if encrypted else "has no TLS; start it with"
    with pytest.raises(FedmirageError, match=f"--superlink {address}.*: this SuperLink {told}"):
        require_same_encryption(differs)


@pytest.mark.parametrize("address", ["127.0.0.1:PORT", "[::1]:PORT", "nonsense", "127.0.0.1:x"])
def test_a_superlink_that_is_not_there_yet_is_left_to_flower(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "PATIENCE", 0.5)
    (free,) = free_addresses(1)
    whole = address.replace("PORT", free.rpartition(":")[2])
    assert has_tls(whole) is None
    require_same_encryption(["--insecure", "--superlink", whole])
