"""Which client holds what: splitting by the recorded settings again gives the same parts."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.errors import FedmirageError, reason
from fedmirage.common.settings.config import configure, defaults
from fedmirage.report.runs import ReportedRun

LARGEST = 20_000  # cells of a table that a page can show
DECIDING = ("dataset", "data-dir", "partition", "clients", "seed")


@dataclass(frozen=True)
class Holding:
    """Samples of every class by client."""

    classes: tuple[str, ...]
    counts: list[list[int]]
    sizes: list[int]
    fingerprint: str  # of the data set that was split


def find_holding(run: ReportedRun) -> Holding | str:
    """Split the data of a run again; a sentence says why that is not possible.

    Nodes with data of their own are given none of it, which their numbers of samples show.
    """
    usual = defaults()
    deciding = tuple((key, run.config.get(key, usual[key])) for key in DECIDING)
    found = _divide(deciding)
    if isinstance(found, str):
        return found
    if found.fingerprint != run.config.get("resolved", {}).get("fingerprint", found.fingerprint):
        return "the data at hand are not those of the run"
    told = {
        int(client["partition"]): client["examples"]
        for line in run.rounds
        for client in line.get("clients", [])
        if client.get("examples")
    }
    fits = all(
        client < len(found.sizes) and examples <= found.sizes[client]
        for client, examples in told.items()
    )
    return found if fits else "clients reported other data than were split, so they have their own"


def shares_samples(run: ReportedRun) -> bool:
    """Whether several clients of a run may hold the same sample."""
    name = str(run.config.get("partition", "")).partition("(")[0].strip()
    return name in PARTITIONS and PARTITIONS[name].shares_samples


@lru_cache(maxsize=32)
def _divide(deciding: tuple[tuple[str, Any], ...]) -> Holding | str:
    # Imported here, because a page without any run need not wait for torch.
    from fedmirage.common.data.heterogeneity import class_table
    from fedmirage.common.data.loading import load
    from fedmirage.common.data.partitions.named import divide

    try:
        config = configure(defaults(), dict(deciding))
        data = load(config.dataset, config.data_dir or None)
        number = len(data.classes)
        parts = divide(config, data)
    except (FedmirageError, OSError) as error:
        return f"the data are not at hand here ({reason(error)})"
    if len(parts) * number > LARGEST:
        return f"{len(parts)} clients times {number} classes are too many to show"
    counts = class_table(data.train, parts, number).tolist()
    sizes = [len(part) for part in parts]
    return Holding(tuple(data.classes), counts, sizes, data.fingerprint)
