"""The partition whose positions are listed: in a file, or by a program that writes that file.

A file that fedmirage writes also names the set and the seeds that the positions belong to:

    {"data": "<fingerprint>", "seeds": {"0": [[0, 4, ...], [1, 2, ...], ...]}}
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.common.data.files.places import find_own
from fedmirage.common.data.files.raw import reading
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.partitions.params import Listed
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import ConfigurationError, refuse
from fedmirage.common.settings.language import write

SHOWN = 3  # clients that a sentence names


def read_listed(
    params: Listed, dataset: DataSet, clients: int, seed: int, folder: Path
) -> list[Indices]:
    """Read the positions of every client, and refuse all that is wrong with them at once."""
    path, where = find_own("partition: indices", params.path, folder), f"partition: {write(params)}"
    with reading(path, "a JSON file with a list of positions per client"):
        given: Any = json.loads(path.read_bytes())
    if isinstance(given, Mapping) and {"data", "seeds"} == given.keys():
        if given["data"] != dataset.fingerprint:
            raise ConfigurationError(
                f"{where} was made for other data than {dataset.name}; give the data for which it"
                " was made, or split these"
            )
        if str(seed) not in given["seeds"]:
            made = ", ".join(given["seeds"])
            raise ConfigurationError(
                f"{where} was made for seed {made}, not seed={seed}; take that seed, or give the"
                " function again"
            )
        given = given["seeds"][str(seed)]
    elif dataset.divided:
        raise ConfigurationError(explain_shift(where, dataset))
    parts, problems = check_listed(where, given, len(dataset.train))
    if not problems and len(parts) != clients:
        told = f"{where} lists {len(parts)} clients, not clients={clients}"
        problems.append(f"{told}; set clients={len(parts)}")
    refuse(problems)
    return parts


def explain_shift(where: str, dataset: DataSet) -> str:
    """Say why positions do not go together with a test set that is held out."""
    return (
        f"{where}: positions count training samples, but {dataset.name} has no test split, and to"
        " hold one out shifts them; give a test split, or in Python a function that splits"
    )


def check_listed(where: str, given: Any, samples: int | None) -> tuple[list[Indices], list[str]]:
    """Turn lists of positions into ascending arrays; return these and all that is wrong.

    Without the number of samples, every position from 0 may be one.
    """
    if isinstance(given, Mapping):
        given = [given[key] for key in order_clients(given)]
    problems: list[str] = []
    if not isinstance(given, list | tuple) or not given:
        return [], [f"{where}: no client is listed; write one list of positions per client"]
    parts = [to_positions(one) for one in given]
    unreadable = [client for client, part in enumerate(parts) if part is None]
    empty = [client for client, part in enumerate(parts) if part is not None and not len(part)]
    if unreadable:
        problems.append(
            f"{where}: {name_clients(unreadable)} must be a list of whole numbers, the positions of"
            " training samples"
        )
    if empty:
        problems.append(
            f"{where}: {name_clients(empty)} holds no sample; give it some or leave it out"
        )
    usable = [part for part in parts if part is not None]
    for client, part in enumerate(parts):
        if part is None or not len(part):
            continue
        if part[0] < 0 or (samples is not None and part[-1] >= samples):
            worst = part[0] if part[0] < 0 else part[-1]
            last = "" if samples is None else f" to {samples - 1}"
            problems.append(
                f"{where}: client {client} lists position {worst}, but training samples are counted"
                f" from 0{last}"
            )
    numbers, counts = np.unique(np.concatenate([*usable, []]), return_counts=True)
    if len(twice := numbers[counts > 1]):
        holders = [c for c, part in enumerate(parts) if part is not None and twice[0] in part]
        problems.append(
            f"{where}: position {twice[0]:.0f} is listed {counts.max()} times, by"
            f" {name_clients(holders)} ({len(twice)} such positions in all); a sample belongs to"
            " one client, once"
        )
    return usable, problems


def order_clients(given: Mapping[Any, Any]) -> list[Any]:
    """Order the keys of clients: by number if they are 0, 1, 2, ..., else as they are given."""
    named = {str(key): key for key in given}
    numbers = [str(number) for number in range(len(given))]
    return [named[key] for key in (numbers if set(numbers) == named.keys() else named)]


def to_positions(given: Any) -> Indices | None:
    """Turn a list of positions into an ascending array, or None if it is no such list."""
    try:
        values = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # nested lists of unequal length, ...
        return None
    if values.ndim == 1 and values.size == 0:
        return np.zeros(0, np.int64)
    return (
        np.sort(values).astype(np.int64) if values.ndim == 1 and values.dtype.kind in "iu" else None
    )


def name_clients(clients: Sequence[int]) -> str:
    """Name some clients: "client 3" or "each of the clients 0, 1, 2 and 4 more"."""
    if len(clients) == 1:
        return f"client {clients[0]}"
    more = f" and {len(clients) - SHOWN} more" if len(clients) > SHOWN else ""
    return f"each of the clients {', '.join(map(str, clients[:SHOWN]))}{more}"
