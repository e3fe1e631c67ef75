"""Texts with labels, from .csv, .parquet and .jsonl files."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from fedmirage.common.data.catalogue.cards import Card
from fedmirage.common.data.files.formats.labels import read_labels
from fedmirage.common.data.files.raw import PictureForm, Raw, RawSplit, Values, reading
from fedmirage.common.errors import DataError

EMPTY_IS_MISSING = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
READERS = {
    ".csv": partial(pyarrow.csv.read_csv, convert_options=EMPTY_IS_MISSING),
    ".jsonl": pyarrow.json.read_json,
    ".parquet": pq.read_table,
}


def read_texts(
    path: Path, text: str, label: str, classes: tuple[str, ...], form: PictureForm
) -> Raw:
    """Read all rows as one split, with texts as objects: only an encoder can use them."""
    table = read_rows(path)
    for key, name in (("text", text), ("label", label)):
        if name not in table.column_names:
            raise DataError(
                f"{path} has no column {name!r}, only {', '.join(table.column_names)}; write"
                f" {key}=... with the one that is meant"
            )
        if missing := table.column(name).null_count:
            raise DataError(
                f"{path}: {missing} of the {len(table)} values of {name!r} are missing; fill or"
                " drop them"
            )
    texts = table.column(text)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise DataError(
            f"{path}: column {text!r} holds {texts.type}, not texts; write text=... with the column"
            " of the texts"
        )
    (labels,), names = read_labels([table.column(label)], Card(classes=classes), ())
    found: Values = np.array(texts.to_pylist(), dtype=object)
    return Raw(RawSplit(found, labels), None, names)


def read_rows(path: Path) -> pa.Table:
    """Read a file of rows, by its ending."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} must end with {', '.join(READERS)}; save it as one of these")
    with reading(path, f"a {path.suffix} file"):
        return reader(path)
