"""audit.json: what an attack found, beside the run that it attacked."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedmirage.audit.attack import Attack, AuditFinding, AuditPicture, AuditTable, Cell
from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError
from fedmirage.common.settings.language import write

FILE = "audit.json"
PICTURES = "audit"  # the folder of an attack's pictures, in that of its run
VERSION = 1


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
