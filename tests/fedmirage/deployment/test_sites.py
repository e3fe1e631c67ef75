"""`fedmirage admit`: who is admitted, under which name and for which partition.

The other side is the database of Flower's SuperLink, without the network."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.proto.control_pb2 import RegisterNodeResponse
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.superlink.federation import NoOpFederationManager

from fedmirage.common.errors import ConfigurationError
from fedmirage.deployment.sites import Admitted, make_key
from fedmirage.server.messages.node_ids import Site, read_node_ids


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
        """Make a key pair; the private half is not this side's business."""
        file = self.folder / name
        make_key(file.with_suffix(""))
        file.with_suffix("").unlink()
        return public_key_to_bytes(load_ssh_public_key(file.read_bytes()))  # type: ignore[arg-type]

    @property
    def admitted(self) -> Admitted:
        return Admitted(cast(Any, self.link), self.file)

    def admit(self, *names: str, only: bool = False) -> str:
        return "\n".join(self.admitted.admit([self.folder / name for name in names], only))

    def admit_folder(self) -> str:
        """As the containers do it: the folder is the list."""
        return self.admit(*sorted(path.name for path in self.folder.glob("*.pub")), only=True)

    def refuse(self, *names: str, only: bool = False) -> str:
        """Why these files are refused; nothing may have changed."""
        before = self.file.read_text() if self.file.exists() else ""
        known = {node.node_id: node.status for node in self.link.ListNodes(None).nodes_info}
        with pytest.raises(ConfigurationError) as error:
            self.admit(*names, only=only)
        assert (self.file.read_text() if self.file.exists() else "") == before
        assert {n.node_id: n.status for n in self.link.ListNodes(None).nodes_info} == known
        return str(error.value)

    def node(self, key: bytes) -> int | None:
        """The node as which the SuperLink would let in who has this key."""
        return self.link.state.get_node_id_by_public_key(key)

    @property
    def sites(self) -> dict[int, Site]:
        return read_node_ids(self.file)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_a_site_is_called_as_its_file_and_gets_the_lowest_free_partition(
    federation: Federation,
) -> None:
    a, c = federation.make_key("site-a.pub"), federation.make_key("site-c.pub")
    said = federation.admit("site-a.pub", "site-c.pub")
    assert "fedmirage supernode --name site-c --node-config 'partition-id=1'" in said
    assert federation.sites == {
        federation.node(a): Site(0, "site-a"),
        federation.node(c): Site(1, "site-c"),
    }
    b = federation.make_key("site-b.pub")
    federation.admitted.revoke(["site-a"])
    assert federation.node(a) is None
    federation.admit("site-b.pub")
    assert federation.sites[federation.node(b) or 0] == Site(0, "site-b")


def test_every_key_is_admitted_for_the_partition_of_its_name(federation: Federation) -> None:
    keys = [federation.make_key(name) for name in ("0.pub", "10.pub")]
    assert "sites that are admitted: 2" in federation.admit_folder()
    assert federation.sites == {
        federation.node(keys[0]): Site(0),
        federation.node(keys[1]): Site(10),
    }
    before = federation.file.read_text()
    assert federation.admit_folder() == "sites that are admitted: 2"  # as after a restart
    assert federation.file.read_text() == before


def test_a_deleted_key_is_revoked_and_never_comes_back(federation: Federation) -> None:
    kept, lost = federation.make_key("0.pub"), federation.make_key("1.pub")
    federation.admit_folder()
    content = (federation.folder / "1.pub").read_bytes()
    (federation.folder / "1.pub").unlink()
    assert "client 1 is revoked, for good" in federation.admit_folder()
    assert federation.node(lost) is None
    assert federation.sites == {federation.node(kept): Site(0)}

    (federation.folder / "1.pub").write_bytes(content)
    assert "was revoked before, and no key is admitted twice" in federation.refuse(
        "0.pub", "1.pub", only=True
    )
    (federation.folder / "1.pub").unlink()
    new = federation.make_key("1.pub")
    federation.admit_folder()
    assert federation.sites == {federation.node(kept): Site(0), federation.node(new): Site(1)}


def test_whoever_registers_a_key_beside_the_folder_loses_it(federation: Federation) -> None:
    """A stranger who reached the Control interface once is gone with the next look."""
    federation.make_key("0.pub")
    federation.link.state.create_node("me", "me", b"a stranger's key", 30.0)
    federation.admit_folder()
    assert federation.node(b"a stranger's key") is None
    assert len(federation.sites) == 1


def test_a_key_that_flower_registered_is_bound(federation: Federation) -> None:
    """As with `flwr supernode register`: the key is known, but stands for nobody."""
    key = federation.make_key("site-a.pub")
    federation.link.state.create_node("me", "me", key, 30.0)
    federation.admit("site-a.pub")
    assert federation.sites == {federation.node(key): Site(0, "site-a")}


def test_a_renamed_file_moves_its_key(federation: Federation) -> None:
    key = federation.make_key("0.pub")
    federation.admit_folder()
    (federation.folder / "0.pub").rename(federation.folder / "site-a.pub")
    federation.admit_folder()
    assert federation.sites == {federation.node(key): Site(0, "site-a")}


def test_everything_that_is_wrong_is_said_at_once(federation: Federation) -> None:
    for name in ("site-a.pub", "site-b.pub"):
        federation.make_key(name)
    federation.admit("site-a.pub")
    (federation.folder / "no.pub").write_text("no key")
    (federation.folder / "00.pub").write_bytes((federation.folder / "site-b.pub").read_bytes())
    (federation.folder / "x.pub").write_bytes((federation.folder / "site-b.pub").read_bytes())
    other = federation.folder.parent / "other"
    make_key(other / "site-a")
    said = federation.refuse(
        "site-a.pub", "site-b.pub", "no.pub", "00.pub", "x.pub", "../other/site-a.pub", "gone.pub"
    )
    for sentence in (
        "site-a.pub: this key is admitted already, as site-a (partition 0)",
        "no.pub is not a public key",
        "00.pub must be called by its site, e.g. site-a.pub, or by its partition",
        f"x.pub holds the key of {federation.folder / 'site-b.pub'}",
        "has the name of",
        "gone.pub: no such file or directory",
    ):
        assert sentence in said


def test_two_sites_with_one_name(federation: Federation) -> None:
    federation.make_key("site-a.pub")
    federation.admit("site-a.pub")
    make_key(federation.folder / "second" / "site-a")
    said = federation.refuse("second/site-a.pub")
    assert "another key is admitted as site-a (partition 0); revoke it first" in said
    federation.admitted.revoke(["site-a"])
    federation.admit("second/site-a.pub")
    assert [site.name for site in federation.sites.values()] == ["site-a"]


def test_a_private_key_is_not_taken(federation: Federation) -> None:
    make_key(federation.folder / "site-a")
    (federation.folder / "secret.pub").write_bytes((federation.folder / "site-a").read_bytes())
    said = federation.refuse("secret.pub")
    assert "secret.pub is a private key, which must never leave its site" in said


def test_whoever_is_not_there_cannot_be_revoked(federation: Federation) -> None:
    federation.make_key("site-a.pub")
    federation.admit("site-a.pub")
    with pytest.raises(ConfigurationError, match="no such site is admitted; those are site-a"):
        federation.admitted.revoke(["site-a", "site-b"])
    assert len(federation.sites) == 1
