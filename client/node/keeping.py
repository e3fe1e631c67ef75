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
from fedmirage.common.settings.config import RunConfig

FILE = "run.json"  # in the folder of what one client remembers of one run


@dataclass(frozen=True)
class KeptRun:
    """The settings of a run, and the data with which this node took part."""

    settings: Mapping[str, Any]
    data: str  # the node's own data, as its owner named them; "" for a part of a common set


def keep_run(folder: Path, config: RunConfig, data: str) -> None:
    """Write the settings, unless they are there already."""
    text = json.dumps({"settings": config.flat(), "data": data}).encode()
    path = folder / FILE
    if not path.exists() or path.read_bytes() != text:
        write_whole(path, text, private=True)


def read_kept_run(folder: Path) -> KeptRun:
    """Read what was kept."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text())
        return KeptRun(dict(found["settings"]), str(found["data"]))
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no {FILE}: the run shared the whole model, so that its model file is"
            " all there is, or an earlier version took part in it; run it again with this one"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path} is damaged; restore it from a copy") from None
