"""Parquet with encoded pictures, as on the Hugging Face hub."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedmirage.common.data.catalogue.cards import Card
from fedmirage.common.data.files.decoding import decode
from fedmirage.common.data.files.formats.labels import read_labels, to_array
from fedmirage.common.data.files.formats.npz import to_floats
from fedmirage.common.data.files.raw import (
    Images,
    PictureForm,
    Raw,
    RawSplit,
    Values,
    list_texts,
    number_values,
    reading,
)
from fedmirage.common.errors import DataError

Files = tuple[Path, ...]


def read_parquet(
    train: Files,
    test: Files,
    card: Card,
    columns: tuple[str, ...],
    transposed: bool,
    tensors: bool,
    form: PictureForm,
) -> Raw:
    """Read both splits of a set; without files for the test split there is none.

    `transposed` exchanges rows and columns, which are exchanged in the files; `tensors` says that
    the inputs are no pictures.
    """
    parts = [files for files in (train, test) if files]
    for files in parts:
        for file in files:
            _check_columns(file, card, columns)
    stored = _class_names(train[0], _column(train[0], card.label, "label"))
    labels, classes = read_labels(
        [_values(files, card.label, "label") for files in parts], card, stored
    )
    extra, told = {}, {}
    for name in columns:
        found = [_values(files, (card.columns.get(name, name),), "columns") for files in parts]
        values_of_parts = [to_array(column) for column in found]
        extra[name] = number_values(values_of_parts, name)
        told[name] = list_texts(values_of_parts)
    splits = []
    for part, files in enumerate(parts):
        lost: dict[int, str] = {}
        images: Values
        if tensors:
            images = to_floats(f"{files[0]}", _numbers(files, card.image))
        else:
            images, lost = _pictures(files, card.image, form)
        images = np.swapaxes(images, 2, 3) if transposed else images
        values = {name: extra[name][part] for name in columns}
        splits.append(RawSplit(images, labels[part], values).without(lost))
    return Raw(splits[0], splits[1] if test else None, classes, column_names=told)


def _check_columns(file: Path, card: Card, columns: tuple[str, ...]) -> None:
    _column(file, card.image, "image")
    _column(file, card.label, "label")
    for name in columns:
        _column(file, (card.columns.get(name, name),), "columns")


def _column(file: Path, names: Sequence[str], key: str) -> str:
    """Return the first of the names that is a column of the file."""
    with reading(file, "a parquet file"):
        present = pq.read_schema(file).names
    for name in names:
        if name in present:
            return name
    wanted = " or ".join(repr(name) for name in names)
    raise DataError(
        f"{file} has no column {wanted}, only {', '.join(present)}; write {key}=... with the one"
        " that is meant"
    )


def _values(files: Files, names: Sequence[str], key: str) -> pa.ChunkedArray:
    columns = []
    for file in files:
        name = _column(file, names, key)
        with reading(file, "a parquet file"):
            column = pq.read_table(file, columns=[name]).column(0)
        if column.null_count:
            raise DataError(
                f"{file}: {column.null_count} of the {len(column)} values of {name!r} are missing;"
                " fill or drop them"
            )
        columns.append(column)
    with reading(files[0], "of the same column type as the other files"):
        return pa.chunked_array(
            [chunk for column in columns for chunk in column.chunks], columns[0].type
        )


def _pictures(
    files: Files, names: Sequence[str], form: PictureForm
) -> tuple[Images, dict[int, str]]:
    with reading(files[0], "a parquet file"):
        count = sum(pq.read_metadata(file).num_rows for file in files)
    return decode(_read_encoded(files, names), count, form)


def _numbers(files: Files, names: Sequence[str]) -> Values:
    """Read a column of numbers in (nested) lists, which must all be of one length."""
    column: Any = _values(files, names, "image").combine_chunks()
    shape = [len(column)]
    while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        lengths = set(pc.list_value_length(column).to_pylist())
        if len(lengths) != 1 or None in lengths:
            raise DataError(
                f"{files[0]}: the lists of {_column(files[0], names, 'image')!r} have"
                f" {len(lengths)} different lengths; give all inputs one shape"
            )
        shape.append(lengths.pop())
        column = column.flatten()
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise DataError(
            f"{files[0]}: column {_column(files[0], names, 'image')!r} holds {column.type}, not"
            " lists of numbers; choose another column with image="
        )
    values: Values = column.to_numpy(zero_copy_only=False).reshape(shape)
    return values


def _read_encoded(files: Files, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the pictures one by one, with a few thousand in memory at a time."""
    for file in files:
        name = _column(file, names, "image")
        row = 0
        with reading(file, "a parquet file"), pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(batch_size=2048, columns=[name]):
                column = batch.column(0)
                if pa.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
                    column = column.field("bytes")
                if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
                    raise DataError(
                        f"{file}: column {name!r} holds {column.type}, not encoded pictures; save"
                        " them as PNG or JPEG bytes"
                    )
                for data in column.to_pylist():
                    if data is None:
                        raise DataError(
                            f"{file}, row {row}: there is no picture (perhaps only its path);"
                            " store its bytes in the file"
                        )
                    yield f"{file}, row {row}", data
                    row += 1


def _class_names(file: Path, column: str) -> tuple[str, ...]:
    """Return the class names that the hub stores with the schema, if there are any."""
    stored = (pq.read_schema(file).metadata or {}).get(b"huggingface")
    try:
        feature: Any = json.loads(stored)["info"]["features"][column] if stored else {}
    except (ValueError, KeyError, TypeError):
        return ()
    feature = feature[0] if isinstance(feature, list) and feature else feature
    # A list of class labels wraps the feature that has the names.
    while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
        feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()
