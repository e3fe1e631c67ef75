"""Joins several sets into one with a column "domain"; shapes, classes and task must agree."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedmirage.common.data.cache import content_fingerprint, load_or_build
from fedmirage.common.data.names import find_difference
from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.errors import refuse

NEUTRAL = 0.5  # mean and std of a combined set whose parts are normalised differently


def combine(parts: list[DataSet], domains: tuple[str, ...], private: bool = False) -> DataSet:
    """Join several sets under the given names of their domains.

    They are normalised with 0.5/0.5 unless all have the same mean and std. The joined copy on the
    disk is private if one of them is somebody's own.
    """
    facts = describe_together(parts, domains)

    def build() -> DataSet:
        train, test = (
            _join_splits([getattr(part, split) for part in parts]) for split in ("train", "test")
        )
        return replace(
            parts[0],
            train=train,
            test=test,
            fingerprint=content_fingerprint(train, test),
            column_names={},  # their numbers are shifted
        )

    joined = load_or_build("combined", [part.fingerprint for part in parts], build, private)
    return replace(joined, **facts)


def describe_together(parts: list[DataSet], domains: tuple[str, ...]) -> dict[str, Any]:
    """Return the facts about several sets as one; refuse sets that cannot be one."""
    _check_alike(parts)
    same = len({(part.mean, part.std) for part in parts}) == 1
    neutral = (NEUTRAL,) * parts[0].shape[0]
    named = _find_named(parts)
    return {
        "name": ", ".join(part.name for part in parts),
        "mean": parts[0].mean if same else neutral,
        "std": parts[0].std if same else neutral,
        "classes": named.classes,
        "task": named.task,
        "named_by": named.named_by,
        "domains": domains,
        "divided": any(part.divided for part in parts),
        "skipped": sum(part.skipped for part in parts),
        "schema": parts[0].schema,
    }


def _check_alike(parts: list[DataSet]) -> None:
    problems = []
    first, named = parts[0], _find_named(parts)
    for part in parts[1:]:
        both = f"dataset: {first.name} and {part.name} cannot be one set:"
        if part.shape[0] != first.shape[0]:
            problems.append(
                f"{both} {first.shape[0]} and {part.shape[0]} channels; write channels=1 or"
                " channels=3 for both"
            )
        if part.shape[1:] != first.shape[1:]:
            sizes = " and ".join(
                "x".join(map(str, shape)) for shape in (first.shape[1:], part.shape[1:])
            )
            problems.append(
                f"{both} pictures of {sizes}; write size={max(first.shape[1:])} for both"
            )
        if len(part.classes) != len(first.classes):
            problems.append(
                f"{both} {len(first.classes)} and {len(part.classes)} classes; choose sets with the"
                " same classes"
            )
        elif (apart := find_difference(part, named.classes, named.named_by)) is not None:
            problems.append(
                f"dataset: {named.name} and {part.name} cannot be one set: class {apart.number} is"
                f" {named.classes[apart.number]!r} in the one and {part.classes[apart.number]!r} in"
                f" the other; {apart.fix}"
            )
        if part.schema != first.schema:
            problems.append(f"{both} their tables have different schemas; write one for both")
        if part.task != first.task:
            problems.append(f"{both} {first.task} and {part.task}; choose sets of one task")
    refuse(problems)


def _find_named(parts: list[DataSet]) -> DataSet:
    """Return the part whose class names the combined set takes."""
    return next((part for part in parts if part.named_by != "numbers"), parts[0])


def _join_splits(splits: list[Split]) -> Split:
    """Put the splits one after the other and number their domains.

    A column that all splits have is kept; its numbers are shifted so that no two sources have a
    number in common.
    """
    numbers = [np.full(len(split), number, np.int64) for number, split in enumerate(splits)]
    columns = {"domain": np.concatenate(numbers)}
    for name in splits[0].columns:
        if all(name in split.columns for split in splits) and name != "domain":
            tops = np.cumsum([0, *(split.columns[name].max(initial=-1) + 1 for split in splits)])
            columns[name] = np.concatenate(
                [split.columns[name] + top for split, top in zip(splits, tops, strict=False)]
            )
    images = np.concatenate([split.images for split in splits])
    return Split(images, np.concatenate([split.labels for split in splits]), columns)
