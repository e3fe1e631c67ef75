"""`fedmirage supernode --check`, and the same checks at every start."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedmirage.common.errors import ConfigurationError
from fedmirage.node import checkup, supernode
from fedmirage.node.checkup import examine, examine_memory
from fedmirage.node.findings import FAULT, OK, WARNING, pick
from fedmirage.runtimes.grpc import free_addresses
from tests.support.commands import fedmirage
from tests.support.files import pictures, png, write_files
from tests.support.nodes import read_way

KEY = (Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def words(folder: Path, data: Path | None = None, more: str = "") -> list[str]:
    own = f' data="{data}"' if data else ""
    listen, away = free_addresses(2)
    config = f'partition-id=0 memory="{folder / "memory"}"{own}{more}'
    given = ["--insecure", "--superlink", away, "--clientappio-api-address", listen]
    return [*given, "--node-config", config]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    samples = pictures(4, 8, 8)
    files = {f"{kind}/{n}.png": png(samples[n]) for n, kind in enumerate(("cat", "dog"))}
    return write_files(tmp_path / "site", files) or tmp_path / "site"


def test_a_node_that_is_ready(tmp_path: Path, site: Path) -> None:
    done = fedmirage("supernode", "--check", *words(tmp_path, site))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this node is ready (1 warning)" in done.stdout
    for part in ("2 pictures for training", "can be written", "nobody answers at", "sha256:"):
        assert part in done.stdout
    assert not (tmp_path / "memory").exists()  # a check leaves nothing


def test_all_faults_at_once(tmp_path: Path, site: Path) -> None:
    write_files(site, {"cat/bad.png": b"no"})
    (tmp_path / "memory" / "outgoing.jsonl").mkdir(parents=True)
    found = pick(examine(read_way(*words(tmp_path, site, ' require="secag"'))), FAULT)
    assert {one.subject for one in found} == {"options", "unreadable", "memory"}


def test_a_node_whose_data_cannot_be_used_does_not_start(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments[0]))
    monkeypatch.setattr(supernode.signal, "pthread_sigmask", lambda *_: None)
    write_files(site, {"cat/bad.png": b"no"})
    with pytest.raises(ConfigurationError, match="1 of 3 pictures cannot be read, so no run"):
        supernode.start(read_way(*words(tmp_path, site)))
    assert not started
    supernode.start(read_way(*words(tmp_path, site, " skip=true")))
    assert len(started) == 1


def test_a_memory_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (found,) = examine_memory(tmp_path / "file" / "memory")
    assert found.state == FAULT
    assert "cannot be written" in found.text
    assert "name another folder: memory=" in found.text
    monkeypatch.setattr(checkup, "LEAST", 2**80)
    (full,) = examine_memory(tmp_path)
    assert (full.state, "free some space" in full.text) == (FAULT, True)


def test_a_memory_folder_that_others_can_read(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (found,) = examine_memory(tmp_path)
    assert (found.state, f"run chmod 700 {tmp_path}" in found.text) == (WARNING, True)
    tmp_path.chmod(0o700)
    assert examine_memory(tmp_path)[0].state == OK


def test_keys(tmp_path: Path) -> None:
    key, text = tmp_path / "key", tmp_path / "text"
    key.write_bytes(ec.generate_private_key(ec.SECP384R1()).private_bytes(*KEY))
    key.chmod(0o644)
    assert "open to other users (mode 644)" in checkup.examine_key("secagg-key", key)[0].text
    key.chmod(0o600)
    assert checkup.examine_key("secagg-key", key)[0].state == OK
    text.write_text("no key")
    assert "secagg-key" in checkup.examine_key("secagg-key", text)[0].text
    assert checkup.examine_peers(tmp_path).state == FAULT
    (tmp_path / "0.pub").write_text("x")
    assert checkup.examine_peers(tmp_path).state == OK


@pytest.mark.parametrize(
    ("days", "state", "told"),
    [(800, OK, "799 days"), (30, WARNING, "ask whoever"), (-2, FAULT, "expired on")],
)
def test_certificates(tmp_path: Path, days: int, state: str, told: str) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    end = datetime.now(UTC) + timedelta(days)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, end - timedelta(900), end)
    file = tmp_path / "ca.crt"
    file.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    found = checkup.examine_days("authority", file)
    assert (found.state, told in found.text) == (state, True)


def test_skip_is_true_or_false(tmp_path: Path) -> None:
    problems = read_way(*words(tmp_path, more=' skip="yes"')).find_problems()
    assert problems == ["--node-config: skip='yes': write true or false, without quotes"]
