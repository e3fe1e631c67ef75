"""The sites of a rehearsal: what the node of each would have in its --node-config.

The folder of a rehearsal names them, because the same settings without them are another run, in
which the clients train on shares of the server's set.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import ConfigurationError
from fedmirage.server.record.results import FILE as RESULTS

FILE = "sites.json"
Sites = Sequence[Mapping[str, Any]]  # by partition


def write_pairs(site: Mapping[str, Any]) -> str:
    """Write what a site has as pairs of --node-config, each with a space before it."""
    return "".join(f" {key}={json.dumps(value)}" for key, value in site.items())


def keep_sites(folder: Path, sites: Sites) -> None:
    """Note the sites in the folder of a rehearsal, before it begins."""
    if sites:
        write_whole(folder / FILE, json.dumps(list(map(dict, sites)), indent=1).encode())


def require_same_sites(folder: Path, sites: Sites) -> None:
    """Refuse to continue a rehearsal with other sites, or as a run, or a run as a rehearsal."""
    kept = read_sites(folder)
    if not (folder / RESULTS).exists() or kept == list(map(dict, sites)):
        return
    if not kept:
        told = "is no rehearsal; continue it with fedmirage run --resume, or choose another folder"
    else:
        paths = " ".join(str(site["data"]) for site in kept)
        told = f"is a rehearsal of other sites; continue it with fedmirage rehearse {paths}"
        told += f" --resume {folder} and the same --node-config, or choose another folder"
    raise ConfigurationError(f"{folder} {told}")


def read_sites(folder: Path) -> list[dict[str, Any]]:
    """Return the sites of a rehearsal; none are those of any other run."""
    path = folder / FILE
    try:
        return list(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return []
    except ValueError:
        raise ConfigurationError(
            f"{path} is damaged, so nobody knows whose data this run had; choose another folder"
        ) from None
