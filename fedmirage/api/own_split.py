"""A split that a Python program holds: a function, or the positions of every client's samples."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedmirage.api.items import locate_error
from fedmirage.api.own_data import keep_file
from fedmirage.common.data.files.places import GIVEN
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.listed import check_listed, explain_shift
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import FedmirageError, list_problems
from fedmirage.common.seeds import numpy_generator
from fedmirage.common.settings.config import RunConfig


def place_split(
    settings: dict[str, Any], base: RunConfig, seeds: Sequence[int], refused: bool
) -> list[str]:
    """Write the split that settings hold, and name the file instead; return what is wrong."""
    given, where = settings["partition"], "partition"
    drawn = callable(given)
    if not drawn and not isinstance(given, list | tuple | Mapping):
        kind = type(given).__name__
        return [
            f"partition: {kind} is no split; write a line such as 'iid', a function, or a list or"
            " dict with the positions of every client"
        ]
    if refused:
        return [] if drawn else check_listed(where, given, None)[1]
    try:
        line = settings.get("dataset", base.dataset)
        dataset = load(line, base.data_dir or None, base.download)
    except FedmirageError as error:
        return list_problems(error)
    if drawn:
        parts, problems = draw_parts(given, dataset, base.clients, seeds)
        content: Any = {"data": dataset.fingerprint, "seeds": parts}
    else:
        listed, problems = check_listed(where, given, len(dataset.train))
        problems += [explain_shift(where, dataset)] if dataset.divided else []
        settings.setdefault("clients", len(listed))
        content = [part.tolist() for part in listed]
    if not problems:
        text = json.dumps(content).encode()
        name = f"{GIVEN}/{hashlib.sha256(text).hexdigest()[:20]}.json"
        keep_file(name, base, lambda file: file.write(text))
        settings["partition"] = f"indices(path={name!r})"
    return problems


def draw_parts(
    function: Callable[..., Any], dataset: DataSet, clients: int, seeds: Sequence[int]
) -> tuple[dict[str, list[list[int]]], list[str]]:
    """Call a function that splits, once per seed; return the positions and what is wrong."""
    drawn: dict[str, list[list[int]]] = {}
    problems: list[str] = []
    for seed in seeds:
        try:
            generator = numpy_generator(seed, "partition", "indices")
            given = function(dataset.train.labels.copy(), clients, generator)
        except Exception as error:  # whatever a user's function raises
            problems.append(f"partition: the function raised {locate_error(error)}")
            continue
        parts, found = check_listed(
            "partition: what the function returns", given, len(dataset.train)
        )
        if not found and len(parts) != clients:
            found = [
                f"partition: the function returns {len(parts)} lists for clients={clients}; it must"
                " return one list of positions per client"
            ]
        problems += found
        drawn[str(seed)] = [part.tolist() for part in parts]
    return drawn, list(dict.fromkeys(problems))
