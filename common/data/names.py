"""Whether two sets mean the same by their class numbers: folders are numbered in the order of their
names, so one other name shifts all that follow."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.data.set import DataSet, NamedBy


@dataclass(frozen=True)
class Difference:
    """Where the names of two sets part, and what to do about it; it holds no name itself."""

    number: int  # of the first class whose names differ
    fix: str


def find_difference(dataset: DataSet, names: Sequence[str], named_by: NamedBy) -> Difference | None:
    """The first place at which a set's classes are not called `names`.

    Published sets are numbered as their publishers did, and where nobody gave names there are none
    to compare: it takes two sets with names, and somebody's own among them.
    """
    kinds = {dataset.named_by, named_by}
    ours, theirs = dataset.classes, tuple(names)
    if "numbers" in kinds or "own" not in kinds or ours == theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    place = next((number for number, (a, b) in enumerate(pairs) if a != b), shorter)
    return Difference(place, _fix(ours, theirs))


def announce_names(dataset: DataSet) -> dict[str, str]:
    """What the server says of its classes when it asks a node who it is; the node compares, so that
    no name of its own has to leave it."""
    return {"names": json.dumps(dataset.classes), "named_by": dataset.named_by}


def name_problem(dataset: DataSet, told: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why a node's classes are not the server's, as a sentence for the server, and as one with the
    node's own name for its own log; None where they agree, or where the server told nothing."""
    names = json.loads(str(told.get("names", "[]")))
    apart = find_difference(dataset, names, told.get("named_by", "numbers"))
    if apart is None:
        return None
    theirs, ours = (
        f"{classes[apart.number]!r}" if apart.number < len(classes) else "none"
        for classes in (names, dataset.classes)
    )
    counts = f"{len(dataset.classes)} classes, the server {len(names)}"
    start = f"it has {counts}, and its" if len(names) != len(dataset.classes) else "its"
    return (
        f"{start} class {apart.number} has another name than the server's, which is {theirs} (the"
        f" node's log shows both); {apart.fix}",
        f"class {apart.number} of {dataset.name} is {ours}, the server's is {theirs}; {apart.fix}",
    )


def _fix(ours: Sequence[str], theirs: Sequence[str]) -> str:
    if sorted(ours) == sorted(theirs):
        return "the names are the same in another order: write classes=(...) for both in one order"
    one, other = ({name.casefold() for name in names} for names in (ours, theirs))
    if one == other:
        return (
            "the names differ in upper and lower case only, which also changes their order: write"
            " them alike"
        )
    if len(ours) != len(theirs) and (one <= other or other <= one):
        return "one side lacks some of the classes: write classes=(...) with the names of all"
    return "give the classes the same names on both sides"
