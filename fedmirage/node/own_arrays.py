"""Reads .npz and parquet files for the check of a node, as a run would."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fedmirage.common.data.catalogue.params import Npz, OwnParams, OwnTable, Parquet
from fedmirage.common.data.files.checks import check_lengths, check_splits
from fedmirage.common.data.files.raw import PictureForm, Raw, reading
from fedmirage.common.data.files.sources import locate
from fedmirage.common.data.set import Split
from fedmirage.common.errors import DataError
from fedmirage.node.own_files import OwnFiles, write_line

KINDS = {"npz": Npz, "parquet": Parquet}


def read_own_arrays(path: Path, kind: str) -> OwnFiles:
    """Read the samples as pictures, or else as other inputs; raise why they are neither."""
    whole = str(path.absolute())
    try:
        return take(read(KINDS[kind](path=whole)), kind, "pictures")
    except DataError as error:
        try:
            raw = read(KINDS[kind](path=whole, inputs="tensors"))
        except DataError:
            raise error from None
        return take(raw, kind, "inputs")


def read_own_table(path: Path, schema: str) -> OwnFiles:
    """Read the rows of a table as its schema says."""
    return take(read(OwnTable(path=str(path.absolute()), schema=schema)), "table", "rows")


def find_unnamed(path: Path) -> str:
    """Name the columns of a parquet file that only the line of a run can tell apart; else empty."""
    first = path if path.is_file() else min(path.glob("*.parquet"))
    with reading(first, "a parquet file"):
        columns = pq.read_schema(first).names
    card = Parquet(path=str(path)).about()
    usual = all(set(names) & set(columns) for names in (card.image, card.label))
    return "" if usual else ", ".join(columns)


def read(params: OwnParams) -> tuple[Raw, Any]:
    """Read the file, and the facts that its labels give."""
    source = locate(params, Path())
    assert source is not None
    raw = source.read(PictureForm(skip=True))
    check_lengths(source.origin, raw)
    labels = raw.train.labels
    count = len(raw.classes)
    if labels.dtype.kind in "iu" and labels.ndim == 1 and not count:
        both = [labels, *([raw.test.labels] if raw.test else [])]
        count = max(2, *(int(part.max(initial=0)) + 1 for part in both))
    card = replace(params.about(), classes=raw.classes, count=count or None)
    return raw, check_splits(source.origin, raw, card, None)


def take(read_set: tuple[Raw, Any], kind: str, noun: str) -> OwnFiles:
    """Count the samples of both splits."""
    raw, (train, test, classes, _) = read_set
    found = OwnFiles(kind, noun)
    for name, split in (("train", train), ("test", test)):
        if len(split) or name == "train":
            count(found, name, split, classes)
    found.unreadable = [why for part in (raw.train, raw.test) if part for why in part.skipped]
    told = ['inputs="tensors"'] if noun == "inputs" else []
    names = repr(classes) if raw.classes else len(classes)
    names = "..." if len(found.counts["train"]) == 1 and not raw.classes else names
    found.line = write_line(found, *told, *([] if kind == "table" else [f"classes={names}"]))
    return found


def count(found: OwnFiles, name: str, split: Split, classes: tuple[str, ...]) -> None:
    """Count the samples of one split."""
    for position, image in enumerate(split.images):
        labels = np.atleast_1d(split.labels[position])
        held = np.flatnonzero(labels) if split.labels.ndim == 2 else labels
        kind = "+".join(classes[int(label)] for label in held) or "none"
        shape = tuple(image.shape)
        found.add(name, f"{name} {position}", kind, shape, np.ascontiguousarray(image).tobytes())
    found.counts[name] = Counter(dict(sorted(found.counts[name].items())))
