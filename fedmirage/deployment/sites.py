"""Whom a SuperLink admits: the keys of sites, each bound to a name and a partition.

The key pair of a site is made on its own host, and known elsewhere by its public half only. The
SuperLink's database knows the keys, and Flower gives each a node id. The file of FEDMIRAGE_NODES
binds the ids to sites, and a run refuses a node that says it is another.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
from flwr.proto.control_pb2_grpc import ControlStub
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.constant import NodeStatus
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import FedmirageError, reason, refuse
from fedmirage.common.site_names import RULE, is_site_name
from fedmirage.server.messages.node_ids import Site, read_node_ids


@dataclass(frozen=True)
class PublicKey:
    """The public key of a site, whose name its file has; a number is a partition and no name."""

    path: Path
    content: bytes  # as the SuperLink keeps it

    @property
    def partition(self) -> int | None:
        """The partition that the file name says, if it says one."""
        return int(self.path.stem) if self.path.stem.isdecimal() else None

    @property
    def name(self) -> str:
        """The name of the site; empty if the file is named by a partition."""
        return "" if self.path.stem.isdecimal() else self.path.stem


def make_key(path: Path) -> tuple[Path, Path]:
    """Make a key pair, the private half readable by its owner only; return both files."""
    public = path.with_name(f"{path.name}.pub")
    check_stem(public)
    for file in (path, public):
        if file.exists():
            raise FedmirageError(
                f"{file} exists, and no key is ever overwritten; use it, or choose another name"
            )
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_whole(path, secret, private=True)
    write_whole(public, shown + f" {path.name}\n".encode())
    return path, public


def read_key(path: Path) -> PublicKey:
    """Read the public key of a site, or refuse the file with a sentence."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FedmirageError(f"{reason(error)}; write the file of a public key") from None
    if b"PRIVATE KEY" in content:
        raise FedmirageError(
            f"{path} is a private key, which must never leave its site: make another pair there,"
            " and admit the file that ends with .pub"
        )
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FedmirageError(
            f"{path} is not a public key ({reason(error)}); `fedmirage key NAME` makes NAME.pub on"
            " the site's host"
        ) from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise FedmirageError(
            f"{path} is a key of another kind than nodes have; `fedmirage key NAME` makes one"
        )
    check_stem(path)
    return PublicKey(path, public_key_to_bytes(key))


def check_stem(path: Path) -> None:
    """Refuse a file whose name is neither that of a site nor a partition."""
    stem = path.name.removesuffix(".pub")
    number = stem.isascii() and stem.isdecimal() and stem == str(int(stem))
    if not path.name.endswith(".pub") or not (number or is_site_name(stem)):
        raise FedmirageError(
            f"{path} must be called by its site, e.g. site-a.pub, or by its partition, e.g. 0.pub;"
            f" for a name, {RULE}"
        )


@dataclass
class Admitted:
    """The sites of a SuperLink: what its database and its file know of them."""

    link: ControlStub
    file: Path

    def __post_init__(self) -> None:
        nodes = self.link.ListNodes(ListNodesRequest()).nodes_info
        self.known: dict[bytes, NodeInfo] = {node.public_key: node for node in nodes}
        self.sites = read_node_ids(self.file) if self.file.exists() else {}

    def admit(self, paths: Sequence[Path], only: bool = False) -> list[str]:
        """Admit the keys of these files, and with `only` nobody else; say what was done.

        If anything is wrong, nothing is changed. With `only`, a key may be there already.
        """
        keys, problems = read_keys(paths)
        contents = {
            self.known[key.content].node_id: key for key in keys if key.content in self.known
        }
        staying = {
            node: site
            for node, site in self.sites.items()
            if not only or (node in contents and fits(contents[node], site))
        }
        admitted = list(staying.values())
        new = [key for key in keys if not (only and self.find_node(key) in staying)]
        places: list[tuple[PublicKey, Site]] = []
        for key in new:
            problems += self.find_problems(key, staying)
            places.append((key, choose(key, admitted)))
            admitted.append(places[-1][1])
        refuse(problems)
        said = self.revoke_others(contents.keys()) if only else []
        said += [self.register(key, site) for key, site in places]
        return [*said, f"sites that are admitted: {len(self.sites)}"]

    def find_node(self, key: PublicKey) -> int | None:
        """Find the node id that Flower gave a key."""
        return self.known[key.content].node_id if key.content in self.known else None

    def find_problems(self, key: PublicKey, staying: Mapping[int, Site]) -> list[str]:
        """Say why a key cannot be admitted beside these sites."""
        node = self.known.get(key.content)
        if node and node.status == NodeStatus.UNREGISTERED:
            return [
                f"{key.path}: this key was revoked before, and no key is admitted twice; make"
                " another pair on the site's host (`fedmirage key NAME`)"
            ]
        if node and (site := staying.get(node.node_id)):
            return [
                f"{key.path}: this key is admitted already, as {site} (partition"
                f" {site.partition}); leave it out, or revoke it first (--revoke {site_key(site)})"
            ]
        taken = [one for one in staying.values() if key.name and one.name == key.name]
        taken += [one for one in staying.values() if one.partition == key.partition]
        return [
            f"{key.path}: another key is admitted as {one} (partition {one.partition}); revoke it"
            f" first (--revoke {site_key(one)}), or call the file by another name"
            for one in taken[:1]
        ]

    def register(self, key: PublicKey, site: Site) -> str:
        """Admit one key; one that Flower knows already is only bound to its site."""
        if (node := self.known.get(key.content)) is None:
            node_id = self.link.RegisterNode(RegisterNodeRequest(public_key=key.content)).node_id
        else:
            node_id = node.node_id
        self.write({**self.sites, node_id: site})
        named = f" --name {site.name}" if site.name else ""
        told = f"its node: fedmirage supernode{named} --node-config 'partition-id={site.partition}'"
        return f"{site} is admitted, partition {site.partition}; {told}"

    def revoke(self, names: Sequence[str]) -> list[str]:
        """Revoke the keys of sites, by name or partition; a node of theirs is out at once."""
        called = {site_key(site): node for node, site in self.sites.items()}
        nodes = {str(site.partition): node for node, site in self.sites.items()} | called
        known = f"those are {', '.join(called)}" if called else "none is"
        refuse(
            [
                f"--revoke {name}: no such site is admitted; {known}"
                for name in names
                if name not in nodes
            ]
        )
        return [self.unregister(node) for node in dict.fromkeys(nodes[name] for name in names)]

    def revoke_others(self, kept: Collection[int]) -> list[str]:
        """Revoke everybody but these nodes, also those who were registered in another way."""
        return [
            self.unregister(node.node_id)
            for node in self.known.values()
            if node.node_id not in kept and node.status != NodeStatus.UNREGISTERED
        ]

    def unregister(self, node_id: int) -> str:
        """Revoke one key for good."""
        self.link.UnregisterNode(UnregisterNodeRequest(node_id=node_id))
        site = self.sites.get(node_id)
        self.write({node: one for node, one in self.sites.items() if node != node_id})
        return f"{site or f'node {node_id}'} is revoked, for good; a new key takes its place"

    def write(self, sites: dict[int, Site]) -> None:
        """Replace the file in one step, because a run may be reading it."""
        self.sites = dict(sorted(sites.items(), key=lambda pair: pair[1].partition))
        lines = [
            f'"{node}" = {{ name = "{site.name}", partition = {site.partition} }}\n'
            if site.name
            else f'"{node}" = {site.partition}\n'
            for node, site in self.sites.items()
        ]
        write_whole(self.file, "".join(lines).encode())


def fits(key: PublicKey, site: Site) -> bool:
    """Whether a site is called as the file of its key says."""
    return key.name == site.name and key.partition in (None, site.partition)


def choose(key: PublicKey, others: Sequence[Site]) -> Site:
    """Give a key the partition that its file says, or else the lowest that is free."""
    taken = {site.partition for site in others}
    free = next(number for number in range(len(taken) + 1) if number not in taken)
    return Site(free if key.partition is None else key.partition, key.name)


def site_key(site: Site) -> str:
    """Return what a person writes for a site: its name, or its partition if it has none."""
    return site.name or str(site.partition)


def read_keys(paths: Sequence[Path]) -> tuple[list[PublicKey], list[str]]:
    """Read the files of public keys, and say everything that is wrong with them."""
    keys, problems = list[PublicKey](), list[str]()
    for path in paths:
        try:
            key = read_key(path)
        except FedmirageError as error:
            problems.append(str(error))
            continue
        for other in keys:
            if other.content == key.content:
                problems.append(f"{path} holds the key of {other.path}; each site has its own")
            elif (other.name, other.partition) == (key.name, key.partition):
                problems.append(f"{path} has the name of {other.path}; each site has its own")
        keys.append(key)
    return keys, problems
