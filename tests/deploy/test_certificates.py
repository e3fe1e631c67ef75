"""deploy/make-certificates: the names that it writes, what it keeps, what `doctor` says of it."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from fedmirage.common.settings.project import ROOT
from fedmirage.show.doctor import certificates, lifetime

PROGRAMS, PATH = Path(sys.executable).parent, os.environ["PATH"]  # fedmirage, of whatever Python


def make(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ROOT / "deploy" / "make-certificates", *arguments],
        env={**os.environ, "FEDMIRAGE_CERTIFICATES": str(folder), "PATH": f"{PROGRAMS}:{PATH}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    done = make(folder, "2", "fl.example.org", "192.0.2.7", "2001:db8::7", "[2001:db8::8]")
    assert done.returncode == 0, done.stderr
    return folder


def test_names_and_addresses_of_both_kinds_are_in_the_certificate(made: Path) -> None:
    certificate = x509.load_pem_x509_certificate((made / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["superlink", "localhost", "fl.example.org"]
    addresses = ["127.0.0.1", "192.0.2.7", "2001:db8::7", "2001:db8::8"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address(each) for each in addresses]


def test_private_keys_are_private_and_public_ones_apart(made: Path) -> None:
    assert sorted(path.name for path in (made / "public").iterdir()) == ["0.pub", "1.pub"]
    secret = [made / "ca.key", made / "server.key", *(made / "nodes").iterdir()]
    assert len(secret) == 4
    assert [path for path in secret if path.stat().st_mode & 0o077] == []


def test_what_exists_is_kept_and_a_node_can_be_added(made: Path) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert make(made, "3").stdout == "made nodes/2\n"
    assert {path: path.read_bytes() for path in before} == before


def test_an_impossible_address_is_said(tmp_path: Path) -> None:
    done = make(tmp_path, "1", "2001:::7")
    assert done.returncode == 1
    assert "2001:::7" in done.stderr
    assert not (tmp_path / "server.crt").exists()


def test_doctor_shows_the_lifetimes(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMIRAGE_CERTIFICATES", str(made))
    shown = dict(certificates())
    assert "824 days" in shown["server.crt"]
    assert "3649 days" in shown["ca.crt"]
    assert "delete it" not in shown["server.crt"]


@pytest.mark.parametrize(
    ("days", "said"), [(800, ", 24 days; delete it and its key"), (900, "expired 20")]
)
def test_doctor_says_what_to_do_with_an_old_one(made: Path, days: int, said: str) -> None:
    later = datetime.now(UTC) + timedelta(days=days)
    assert said in lifetime(made / "server.crt", later)
    assert "fedmirage superlink" in lifetime(made / "server.crt", later)


def test_doctor_says_that_a_file_is_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    assert lifetime(tmp_path / "ca.crt", datetime.now(UTC)).startswith("cannot be read: ")
