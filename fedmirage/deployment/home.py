"""The folder of a SuperLink: everything that it keeps lies in one place, which can be backed up."""

from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedmirage.common.drafts import write_whole

LINK = "here"  # how Flower's command line calls the SuperLink of this folder


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
