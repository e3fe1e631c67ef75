"""What a node keeps of a run in which a part of the model stays with it, for its owner.

The memory holds weights only. With the settings beside it, the owner can assemble the node's
personal model long after the run: `fedmirage personal`. Nothing of it leaves the node.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError
from fedmirage.common.run import Run

FILE = "run.json"  # in the folder of what one client remembers of one run


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
