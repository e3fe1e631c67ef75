"""What a node keeps of a run beside its memory, which holds weights only. Nothing of it leaves.

If a part of the model stays with the node, its settings: with them, the owner can assemble the
node's personal model long after the run (`fedmirage personal`). Of a table, its normalisation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError, WireError
from fedmirage.common.run import Run

FILE = "run.json"  # in the folder of what one client remembers of one run
SCALE = "normalisation"  # the same


@dataclass(frozen=True)
class KeptRun:
    """The settings of a run, and what else the node needs to load its data as it did then."""

    settings: Mapping[str, Any]
    places: Mapping[str, str]  # of its own data, from its configuration; empty for a common set
    mean: tuple[float, ...]  # per channel: the normalisation, which clients may have formed
    std: tuple[float, ...]


def keep_run(folder: Path, run: Run, places: Mapping[str, str]) -> None:
    """Write what is needed, unless it is there already."""
    data = run.dataset
    found = {"settings": run.config.flat(), "places": dict(places)}
    text = json.dumps({**found, "mean": data.mean, "std": data.std}).encode()
    path = folder / FILE
    if not path.exists() or path.read_bytes() != text:
        write_whole(path, text, private=True)


def read_kept_run(folder: Path) -> KeptRun:
    """Read what was kept."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text())
        scale = (tuple(map(float, found[key])) for key in ("mean", "std"))
        return KeptRun(dict(found["settings"]), dict(found["places"]), *scale)
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no {FILE}: the run shared the whole model, so that its model file is"
            " all there is, or an earlier version took part in it; run it again with this one"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path} is damaged; restore it from a copy") from None


def require_same_scale(folder: Path, scale: bytes) -> None:
    """Keep the normalisation that a run names first, and refuse every other one in this run.

    What a client has prepared, and what it has trained, would not fit another one.
    """
    path = folder / SCALE
    if not path.exists():
        write_whole(path, scale, private=True)
    elif path.read_bytes() != scale:
        raise WireError(
            "the server names another normalisation of the table than before in this run; begin a"
            " new run, or resume this one from its own folder"
        )
