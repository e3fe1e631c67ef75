"""Certificates of a SuperLink: what they allow, what is kept, and which are refused."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.deployment import certificates
from fedmirage.deployment.certificates import make_certificates, read_certificate
from fedmirage.deployment.link import Home
from fedmirage.deployment.program import Program
from fedmirage.node.encryption import distrust, find_expired


@pytest.fixture
def made(tmp_path: Path) -> Path:
    make_certificates(tmp_path, ["fl.example.org", "[2001:db8::7]"])
    return tmp_path


def shake_hands(folder: Path) -> str:
    """What a node thinks of a server with these certificates, at 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):  # the second look is for the dates
                try:
                    connection, _ = listener.accept()
                    with connection:
                        context.wrap_socket(connection, server_side=True).close()
                except OSError:  # the client is content, or it is not and has left
                    continue

        threading.Thread(target=serve, daemon=True).start()
        return distrust(f"127.0.0.1:{listener.getsockname()[1]}", folder / "ca.crt")


def make_as_of(folder: Path, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make them as if today were some days ago."""

    class Clock:
        @staticmethod
        def now(zone: object) -> datetime:
            return datetime.now(UTC) - timedelta(days=days)

    with monkeypatch.context() as patch:
        patch.setattr(certificates, "datetime", Clock)
        make_certificates(folder, [])


def test_a_node_trusts_the_authority_and_the_name(made: Path) -> None:
    assert shake_hands(made) == ""


def test_a_strict_client_accepts_the_chain(made: Path) -> None:
    """Python 3.13 is strict by default."""
    context = ssl.create_default_context(cafile=str(made / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made / "server.crt", made / "server.key")
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(ours, theirs, server_hostname="fl.example.org")
    listening = server.wrap_bio(theirs, ours, server_side=True)
    for _ in range(4):
        for side in (client, listening):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.getpeercert()


def test_a_new_name_needs_a_new_certificate(made: Path) -> None:
    assert make_certificates(made, ["fl.example.org"]) == []
    with pytest.raises(FedmirageError, match=r"--host other.org: .*server.crt is for superlink"):
        make_certificates(made, ["other.org"])
    for name in ("server.crt", "server.key"):
        (made / name).unlink()
    authority = (made / "ca.crt").read_bytes()
    (said,) = make_certificates(made, ["other.org"])
    assert "other.org" in said
    assert (made / "ca.crt").read_bytes() == authority
    assert shake_hands(made) == ""


def test_without_the_authoritys_key_nothing_is_signed(made: Path) -> None:
    for name in ("server.crt", "server.key", "ca.key"):
        (made / name).unlink()
    with pytest.raises(FedmirageError, match=r"ca.key cannot sign \(.*no such file"):
        make_certificates(made, [])
    assert not (made / "server.crt").exists()


@pytest.mark.parametrize("host", ["fl example", "2001:::7", "192.0.2.300", "", "a..b", "x:y"])
def test_what_is_no_host_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(FedmirageError, match="is neither a name nor an address"):
        make_certificates(tmp_path, [host])
    assert list(tmp_path.iterdir()) == []


def test_an_expired_certificate_is_refused_by_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "federation")
    make_as_of(home.certificates, 900, monkeypatch)
    end = f"{datetime.now(UTC) + timedelta(days=825 - 900):%Y-%m-%d}"
    free = ("127.0.0.1:0",) * 3
    program = Program(home, home.certificates, (), False, *free)
    with pytest.raises(ConfigurationError) as error:
        program.prepare()
    assert f"server.crt expired on {end}; delete it and server.key" in str(error.value)
    assert not home.exists
    assert f"its certificate expired on {end}" in shake_hands(home.certificates)


def test_an_authority_expires_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_as_of(tmp_path, 4000, monkeypatch)
    assert find_expired(read_certificate(tmp_path / "ca.crt")).startswith("expired on 20")
    make_as_of(tmp_path / "later", -3, monkeypatch)
    assert "is valid from" in find_expired(read_certificate(tmp_path / "later" / "ca.crt"))
