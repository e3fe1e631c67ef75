"""What an attack declares about itself, and what it finds; no torch, because --help reads it.

What it finds is kept in audit.json, beside the run that it attacked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError
from fedmirage.common.settings.language import Params, write

if TYPE_CHECKING:
    from fedmirage.audit.overheard import Overheard
    from fedmirage.common.data.set import DataSet
    from fedmirage.common.settings.config import RunConfig

Cell = str | float | int | None  # None is shown as "-"
FILE = "audit.json"
PICTURES = "audit"  # the folder of an attack's pictures, in that of its run
VERSION = 1


@dataclass(frozen=True)
class AuditTable:
    """Numbers of an attack, one row per thing that was attacked."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class AuditPicture:
    """A PNG file beside the audit, and what it shows."""

    file: str  # its name in the folder of `Overheard.picture`
    caption: str


@dataclass(frozen=True)
class AuditFinding:
    """What an attack found: the answer in sentences, then what it rests on."""

    says: Sequence[str]
    tables: Sequence[AuditTable] = ()
    pictures: Sequence[AuditPicture] = ()
    numbers: dict[str, Any] = field(default_factory=dict)  # plain values, for programs


class Attack(Params):
    """One attack: its parameters, the run that it needs, and what it cannot be used on."""

    module: ClassVar[str]  # its function `carry_out` does the work
    # What its run is like where the user says nothing.
    settings: ClassVar[dict[str, Any]] = {}

    def check(self, config: RunConfig) -> list[str]:
        """Say in sentences why it cannot attack a run with these settings; none if it can."""
        return []

    def check_data(self, config: RunConfig, dataset: DataSet) -> list[str]:
        """Say in sentences why these data do not suffice; none if they do."""
        return []

    def arrange(self, config: RunConfig) -> RunConfig:
        """Change the settings of its run as no flag can, e.g. which samples are held out.

        What it writes goes to the folder of the run's pictures.
        """
        return config

    def carry_out(self, seen: Overheard) -> AuditFinding:
        """Attack what the server of a run has seen."""
        found: AuditFinding = import_module(self.module).carry_out(self, seen)
        return found


def write_finding(folder: Path, attack: Attack, methods: str, found: AuditFinding) -> None:
    """Write what was found into the folder of the run."""
    facts = {"version": VERSION, "attack": write(attack), "methods": methods}
    text = json.dumps({**facts, **asdict(found)}, indent=1, allow_nan=False)
    write_whole(folder / FILE, text.encode())


@dataclass(frozen=True)
class RecordedFinding:
    """What audit.json holds."""

    attack: str  # with its parameters, as it was written
    methods: str
    finding: AuditFinding


def read_finding(folder: Path) -> RecordedFinding | None:
    """Read what an attack found; None if nobody has audited this run."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if said["version"] != VERSION:
            raise DataError(f"{path} was written by another version; repeat the audit")
        tables = [AuditTable(**table) for table in said["tables"]]
        pictures = [AuditPicture(**picture) for picture in said["pictures"]]
        found = AuditFinding(said["says"], tables, pictures, said["numbers"])
        return RecordedFinding(str(said["attack"]), str(said["methods"]), found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}); repeat the audit") from None


def show_cell(value: Cell) -> str:
    """Write a cell of a table as people read it."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
