"""A node and a SuperLink of which only one has TLS are told apart before they meet."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

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
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "superlink")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    addresses = [x509.IPAddress(ip_address("127.0.0.1"))]
    builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, *form), builder.sign(key, hashes.SHA256()).public_bytes(pem)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """A key, and the file of its certificate."""
    key, written = make_certificate()
    file = tmp_path_factory.mktemp("certificate") / "ca.crt"
    file.write_bytes(written)
    return key, file


@pytest.fixture(scope="module", params=[False, True])
def server(
    request: pytest.FixtureRequest, certificate: tuple[bytes, Path]
) -> Iterator[tuple[str, bool]]:
    """The address of a gRPC server, and whether it has TLS."""
    (address,) = free_addresses(1)
    key, file = certificate
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        if request.param:
            pairs = [(key, file.read_bytes())]
            server.add_secure_port(address, grpc.ssl_server_credentials(pairs))
        else:
            server.add_insecure_port(address)
        server.start()
        yield address, request.param
        server.stop(None)


def test_only_the_same_on_both_sides_is_accepted(
    server: tuple[str, bool], certificate: tuple[bytes, Path]
) -> None:
    address, encrypted = server
    assert has_tls(address) is encrypted
    require_same_encryption(address, not encrypted, certificate[1] if encrypted else None)
    told = "has TLS; write --root-certificates" if encrypted else "has no TLS; start it with"
    with pytest.raises(FedmirageError, match=f"--superlink {address}.*: this SuperLink {told}"):
        require_same_encryption(address, encrypted, None if encrypted else certificate[1])


def test_a_certificate_that_the_node_does_not_trust_is_named(
    server: tuple[str, bool], certificate: tuple[bytes, Path], tmp_path: Path
) -> None:
    address, encrypted = server
    if not encrypted:
        return
    with pytest.raises(FedmirageError, match=r"no authority .* --root-certificates FILE"):
        require_same_encryption(address, False, None)
    other = tmp_path / "other.crt"
    other.write_bytes(make_certificate()[1])
    with pytest.raises(FedmirageError, match=r"the authority in .*other.crt has not signed"):
        require_same_encryption(address, False, other)
    elsewhere = address.replace("127.0.0.1", "localhost")
    with pytest.raises(FedmirageError, match="certificate is not for the name localhost"):
        require_same_encryption(elsewhere, False, certificate[1])


@pytest.mark.parametrize("address", ["127.0.0.1:PORT", "[::1]:PORT", "nonsense", "127.0.0.1:x"])
def test_a_superlink_that_is_not_there_yet_is_left_to_flower(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encryption, "PATIENCE", 0.5)
    (free,) = free_addresses(1)
    whole = address.replace("PORT", free.rpartition(":")[2])
    assert has_tls(whole) is None
    require_same_encryption(whole, True, None)
