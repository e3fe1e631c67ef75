"""How to reach a SuperLink: by the folder in which it was started, or as Flower's settings say.

Everything that a SuperLink keeps lies in its folder, which can be backed up.
"""

import os
import socket
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import tomli_w
from flwr.proto.control_pb2_grpc import ControlStub

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import flower_home
from fedmirage.common.settings.language import nearest
from fedmirage.node.admission import find_number

LINK = "here"  # how Flower's command line calls the SuperLink of this folder
PATIENCE = 10.0  # seconds in which a SuperLink must answer
HERE = ("127.", "localhost:", "[::1]:")  # how the address of a SuperLink on this machine begins


@dataclass(frozen=True)
class Home:
    """Where a SuperLink has what."""

    folder: Path

    @property
    def flower(self) -> Path:
        """The FLWR_HOME of its programs: Flower's settings, and the code of runs."""
        return self.folder / "flwr"

    @property
    def connection(self) -> Path:
        """Where Flower's command line finds its address."""
        return self.flower / "config.toml"

    @property
    def database(self) -> Path:
        """Its runs, nodes and messages, which outlive a restart."""
        return self.folder / "superlink.db"

    @property
    def nodes(self) -> Path:
        """Which node stands for which site: the file of FEDMIRAGE_NODES."""
        return self.folder / "nodes.toml"

    @property
    def certificates(self) -> Path:
        """Its certificate and that of its authority, unless they lie elsewhere."""
        return self.folder / "certificates"

    @property
    def runs(self) -> Path:
        """The results of runs that were submitted without --out."""
        return self.folder / "runs"

    def write_connection(self, control: str, root: Path | None) -> None:
        """Tell Flower's command line, and ours, where this SuperLink takes orders."""
        host, _, port = control.rpartition(":")
        local = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "[::]" else host
        how = {"root-certificates": str(root)} if root else {"insecure": True}
        entry = {"address": f"{local}:{port}", **how}
        self.flower.mkdir(parents=True, exist_ok=True)
        content = {"superlink": {"default": LINK, LINK: entry}}
        write_whole(self.connection, tomli_w.dumps(content).encode())

    @property
    def exists(self) -> bool:
        """Whether a SuperLink was started in this folder."""
        return self.connection.exists()


@dataclass(frozen=True)
class Link:
    """A SuperLink as Flower's command line knows it."""

    name: str
    address: str
    root: Path | None  # the certificate of its authority, if it is not one that this system trusts
    insecure: bool
    flower: Path  # the FLWR_HOME whose config.toml names it
    home: Home | None = None  # its folder, if it was started in one on this machine

    @property
    def here(self) -> bool:
        """Whether its address is one of this machine."""
        return self.address.startswith(HERE)

    @property
    def host(self) -> str:
        """What other machines call its machine."""
        return socket.getfqdn() if self.here else self.address.rpartition(":")[0].strip("[]")

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Flower's command line finds it."""
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        return {**os.environ, **quiet, "FLWR_HOME": str(self.flower)}

    def __str__(self) -> str:
        return str(self.home.folder) if self.home else self.name


def find_link(text: str) -> Link:
    """Find a SuperLink by its folder, or by its name or address in Flower's config.toml."""
    home = Home(Path(text).absolute())
    if home.exists:
        return read_links(home.flower, home)[LINK]
    links = read_links(flower_home())
    by_address = {link.address: link for link in links.values()}
    if text in links or text in by_address:
        return links.get(text) or by_address[text]
    raise FedmirageError(
        f"{flower_home() / 'config.toml'} has no SuperLink {text!r}"
        f"{nearest(text, links) if links else ''} (write it there as [superlink.NAME], address ="
        ' "HOST:9093", and insecure = true or root-certificates), and there is no folder of this'
        " name in which `fedmirage superlink` was started"
    )


def read_links(flower: Path, home: Home | None = None) -> dict[str, Link]:
    """Read the SuperLinks that a config.toml of Flower's names."""
    path = flower / "config.toml"
    try:
        known = tomllib.loads(path.read_text()).get("superlink", {}) if path.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise FedmirageError(f"{path} cannot be read as TOML: {error}") from None
    return {
        name: read_entry(name, entry, flower, home)
        for name, entry in known.items()
        if is_remote(entry)
    }


def read_entry(name: str, entry: dict[str, Any], flower: Path, home: Home | None) -> Link:
    """Read one SuperLink."""
    given = entry.get("root-certificates")
    root = Path(str(given)) if given else None
    return Link(name, str(entry["address"]), root, bool(entry.get("insecure")), flower, home)


def is_remote(entry: Any) -> bool:
    """Whether an entry of Flower's config.toml is a SuperLink, and not Flower's simulation."""
    return isinstance(entry, dict) and not str(entry.get("address", ":")).startswith(":")


@contextmanager
def control(link: Link) -> Iterator[ControlStub]:
    """Open the interface through which a SuperLink takes orders; its refusals are sentences."""
    with open_channel(link) as channel:
        try:
            grpc.channel_ready_future(channel).result(PATIENCE)
        except grpc.FutureTimeoutError:
            raise FedmirageError(
                f"the SuperLink at {link.address} does not answer within {PATIENCE:.0f} s; is it"
                " running (`fedmirage superlink FOLDER`), and is its certificate the one of"
                f" {link.root or 'an authority that this system trusts'}?"
            ) from None
        try:
            yield ControlStub(channel)
        except grpc.RpcError as error:
            details = str(error.details())
            number = find_number(details)
            known = f" (Flower's number {number})" if number else ""
            raise FedmirageError(
                f"the SuperLink at {link.address} did not do as it was asked{known}: {details}"
            ) from None


def open_channel(link: Link) -> grpc.Channel:
    """Open a channel as encrypted as the SuperLink is."""
    if link.insecure:
        return grpc.insecure_channel(link.address)
    try:
        trusted = link.root.read_bytes() if link.root else None
    except OSError:
        raise FedmirageError(
            f"root-certificates of {link}: {link.root} cannot be read; it is ca.crt of the"
            " SuperLink's authority"
        ) from None
    return grpc.secure_channel(link.address, grpc.ssl_channel_credentials(trusted))
