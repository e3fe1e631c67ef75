"""deploy/admit.py: a folder of public keys decides who is admitted, and for which partition.

The other side is the database of Flower's SuperLink, without the network."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.proto.control_pb2 import RegisterNodeResponse
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.superlink.federation import NoOpFederationManager

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.project import ROOT
from fedmirage.server.messages.node_ids import read_node_ids

admit = runpy.run_path(str(ROOT / "deploy" / "admit.py"))["admit"]


class Link:
    """The three calls of the Control interface that are used."""

    def __init__(self, database: Path) -> None:
        self.state = LinkStateFactory(
            str(database), NoOpFederationManager(), ObjectStoreFactory()
        ).state()

    def ListNodes(self, _: Any) -> Any:  # noqa: N802
        return SimpleNamespace(nodes_info=self.state.get_node_info(owner_aids=["me"]))

    def RegisterNode(self, request: Any) -> RegisterNodeResponse:  # noqa: N802
        return RegisterNodeResponse(
            node_id=self.state.create_node("me", "me", request.public_key, 30.0)
        )

    def UnregisterNode(self, request: Any) -> None:  # noqa: N802
        self.state.delete_node("me", request.node_id)


class Federation:
    """A SuperLink's database, a folder of keys, and the file that binds them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder / "public", folder / "nodes.toml"
        self.folder.mkdir()
        self.link = Link(folder / "superlink.db")

    def make_key(self, name: str) -> bytes:
        key = ec.generate_private_key(ec.SECP384R1()).public_key()
        (self.folder / name).write_bytes(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
        return public_key_to_bytes(key)

    def admit(self) -> str:
        return "\n".join(admit(self.link, self.folder, self.file))

    def node(self, key: bytes) -> int | None:
        """The node as which the SuperLink would let in who has this key."""
        return self.link.state.get_node_id_by_public_key(key)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_every_key_is_admitted_for_the_partition_of_its_name(federation: Federation) -> None:
    keys = [federation.make_key(name) for name in ("0.pub", "10.pub")]
    assert "nodes that are admitted: 2" in federation.admit()
    assert read_node_ids(federation.file) == {
        federation.node(keys[0]): 0,
        federation.node(keys[1]): 10,
    }
    before = federation.file.read_text()
    assert federation.admit() == "nodes that are admitted: 2"  # as after a restart
    assert federation.file.read_text() == before


def test_a_deleted_key_is_revoked_and_never_comes_back(federation: Federation) -> None:
    kept, lost = federation.make_key("0.pub"), federation.make_key("1.pub")
    federation.admit()
    content = (federation.folder / "1.pub").read_bytes()
    (federation.folder / "1.pub").unlink()
    assert f"node {federation.node(lost)} is revoked" in federation.admit()
    assert federation.node(lost) is None
    assert read_node_ids(federation.file) == {federation.node(kept): 0}

    (federation.folder / "1.pub").write_bytes(content)
    assert "1.pub was revoked before, and no key is admitted twice" in federation.admit()
    assert federation.node(lost) is None

    new = federation.make_key("1.pub")
    federation.admit()
    assert read_node_ids(federation.file) == {federation.node(kept): 0, federation.node(new): 1}


def test_whoever_registers_a_key_beside_the_folder_loses_it(federation: Federation) -> None:
    """A stranger who reached the Control interface once is gone with the next look."""
    federation.make_key("0.pub")
    federation.link.state.create_node("me", "me", b"a stranger's key", 30.0)
    federation.admit()
    assert federation.node(b"a stranger's key") is None
    assert len(read_node_ids(federation.file)) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("site.pub", "", "must be named by its partition"),
        ("00.pub", "", "must be named by its partition"),
        ("1.pub", "no key", "is not a public key"),
    ],
)
def test_files_that_bind_nothing_are_said(
    federation: Federation, name: str, content: str, said: str
) -> None:
    (federation.folder / name).write_text(content)
    with pytest.raises(FedmirageError, match=said):
        federation.admit()


def test_one_key_serves_one_partition(federation: Federation) -> None:
    federation.make_key("0.pub")
    (federation.folder / "1.pub").write_bytes((federation.folder / "0.pub").read_bytes())
    with pytest.raises(FedmirageError, match="holds the key of partition 0; each has its own"):
        federation.admit()
