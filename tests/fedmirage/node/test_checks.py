"""What a node is started with is checked before anything is started."""

import socket
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedmirage.node.checks import check_address, check_certificates, check_key, check_node_config
from fedmirage.runtimes.grpc import free_addresses


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("partition-id=0 num-partitions=3", []),
        ("partition-id", ["cannot read 'partition-id'; write pairs such as 'partition-id=0"]),
        (
            "partition-id=0 data=/srv/x",
            ['data=/srv/x cannot be read; a text needs double quotes: data="/srv/x"'],
        ),
        ("", ["partition-id is missing; write 'partition-id=N'"]),
        ("partition-id=-1", ["partition-id=-1: write a whole number from 0"]),
        ('partition-id="0"', ["partition-id='0': write a whole number from 0"]),
        (
            'partition_id=0 data="/nowhere" require="secag"',
            [
                "there is no key 'partition_id'; did you mean 'partition-id'",
                "partition-id is missing",
                "data='/nowhere': nothing is there",
                "require='secag': nothing is called 'secag'; did you mean",
            ],
        ),
        ("nowhere.toml", ["--node-config nowhere.toml: there is no such file"]),
    ],
)
def test_node_config(text: str, told: list[str]) -> None:
    problems = check_node_config(text)
    assert len(problems) == len(told), problems
    for problem, part in zip(problems, told, strict=True):
        assert part in problem
        assert problem.startswith("--node-config")


def test_a_key_must_be_an_elliptic_one_without_a_password(tmp_path: Path) -> None:
    form = (Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    good, other, text = (tmp_path / name for name in ("good", "other", "text"))
    good.write_bytes(ec.generate_private_key(ec.SECP384R1()).private_bytes(*form))
    other.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(*form))
    text.write_text("no key")
    assert check_key(good, insecure=False) == []
    assert check_key(None, insecure=True) == []
    assert (
        "is a key of another kind; make one with `fedmirage key NAME`" in check_key(other, False)[0]
    )
    assert "is no private key of ssh" in check_key(text, False)[0]
    assert "there is no such file" in check_key(tmp_path / "none", False)[0]
    assert "proves nothing without TLS" in check_key(good, insecure=True)[0]


def test_certificates_must_be_certificates(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    assert "there is no such file; it is ca.crt of" in check_certificates(file, False)[0]
    file.write_text("no certificate")
    assert "holds no certificate" in check_certificates(file, False)[0]
    assert "exclude each other" in check_certificates(file, True)[0]
    assert check_certificates(None, True) == []


def test_an_address_that_another_node_uses_is_refused() -> None:
    (free,) = free_addresses(1)
    assert check_address(free) == []
    assert "write HOST:PORT" in check_address("nonsense")[0]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        assert (
            "another program, perhaps another node, uses it; choose another port"
            in check_address(taken)[0]
        )
