"""Checks whether two sets mean the same by their class numbers.

Folders are numbered in the order of their names, so one different name shifts all that follow.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedmirage.common.data.set import DataSet, NamedBy


@dataclass(frozen=True)
class NameDifference:
    """Where the class names of two sets begin to differ, and what to do about it.

    It holds no name itself, because a node's names must not leave the node.
    """

    number: int  # of the first class whose names differ
    fix: str


def find_difference(
    dataset: DataSet, names: Sequence[str], named_by: NamedBy
) -> NameDifference | None:
    """Find the first class of a set that is not called as in `names`.

    Published sets are all numbered as their publishers did, and classes that are only numbered have
    no names. So there is a difference only between two sets with names, at least one of them
    somebody's own.
    """
    kinds = {dataset.named_by, named_by}
    ours, theirs = dataset.classes, tuple(names)
    if "numbers" in kinds or "own" not in kinds or ours == theirs:
        return None
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    first = next((number for number, (a, b) in enumerate(pairs) if a != b), shorter)
    return NameDifference(first, _suggest_fix(ours, theirs))


def announce_names(dataset: DataSet) -> dict[str, str]:
    """Return what the server tells a new node about its classes.

    The node makes the comparison, so that none of its own names has to leave it.
    """
    return {"names": json.dumps(dataset.classes), "named_by": dataset.named_by}


def name_problem(dataset: DataSet, told: Mapping[str, Any]) -> tuple[str, str] | None:
    """Explain how a node's classes differ from the server's, or return None if they do not.

    The first sentence is for the server; the second one, for the node's own log, also has the
    node's name of the class. Where the server announced nothing, there is no problem.
    """
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


def _suggest_fix(ours: Sequence[str], theirs: Sequence[str]) -> str:
    if sorted(ours) == sorted(theirs):
        return "the names are the same in another order: write classes=(...) for both in one order"
    one, other = ({name.casefold() for name in names} for names in (ours, theirs))
    if one == other:
        return (
            "the names differ in upper and lower case only, which also changes their order: write"
            " them in the same way"
        )
    if len(ours) != len(theirs) and (one <= other or other <= one):
        return "one side lacks some of the classes: write classes=(...) with the names of all"
    return "give the classes the same names on both sides"
