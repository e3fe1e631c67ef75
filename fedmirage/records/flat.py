"""The lines of results.jsonl as flat values, for frames and loggers."""

from collections.abc import Mapping
from typing import Any

LISTS = ("clients", "refused", "sites")  # one entry per client, which a flat round has no place for
# What a line about the sites repeats of its round, or lists.
OF_SITES = ("kind", "round", "model", "without_partitions")
OWN_NAMES = "methods"  # its metrics carry the names of their methods already


def flatten_round(line: Mapping[str, Any]) -> dict[str, Any]:
    """Give every value of a round's line a name of its own, such as `train.task`."""
    kept = {key: value for key, value in line.items() if key not in ("kind", "held_out", *LISTS)}
    return flatten(kept) | site_metrics(line.get("held_out", {}))


def site_metrics(line: Mapping[str, Any]) -> dict[str, Any]:
    """Name the scores of a model at the sites, such as `held_out.by_examples.accuracy`."""
    return flatten({key: value for key, value in line.items() if key not in OF_SITES}, "held_out.")


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Join the names of nested values with dots; the values of a list are numbered."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, list):
            found |= flatten(dict(enumerate(value)), f"{name}.")  # type: ignore[arg-type]
        elif isinstance(value, Mapping):
            found |= flatten(value, "" if name == OWN_NAMES else f"{name}.")
        else:
            found[name] = value
    return found


def round_metrics(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a round by their names, without the number of the round itself."""
    values = flatten_round(line)
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and name != "round"
    }
