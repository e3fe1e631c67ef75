"""A data set as its line describes it: no file of data is opened, and there is no sample in it.

A server that reads no data (server-data="none") makes its model of this.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from fedmirage.common.data.catalogue.base import DatasetParams
from fedmirage.common.data.catalogue.params import OwnTable
from fedmirage.common.data.combine import describe_together
from fedmirage.common.data.files.places import data_folder, find_own
from fedmirage.common.data.loading import name_sources, named_by, normalisation
from fedmirage.common.data.set import DataSet, Split, Task
from fedmirage.common.data.tables.reading import find_groups
from fedmirage.common.data.tables.schema import read_schema
from fedmirage.common.settings.language import write

Wanted = Task | Literal["auto"]


def outline(chosen: tuple[DatasetParams, ...], task: Wanted, data_dir: str = "") -> DataSet:
    """Describe the sets of a dataset line together; `task` is the run's, or "auto".

    Of a table, the schema is read, which tells what the columns mean and holds no row.
    """
    parts = [
        outline_table(params, data_dir)
        if isinstance(params, OwnTable)
        else outline_one(params, task)
        for params in chosen
    ]
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], **describe_together(parts, name_sources(list(chosen))))


def outline_one(params: DatasetParams, task: Wanted) -> DataSet:
    """Describe one set; settings that leave its classes or its form open were refused before."""
    card, shape = params.about(), params.known_shape
    assert shape is not None
    count = card.class_count or 0
    classes = card.classes or tuple(map(str, range(count)))
    usual: Task = "multi-label" if card.task == "multi-label" else "single-label"
    kind: Task = usual if task == "auto" else task
    pixels = np.zeros((0, *shape), np.uint8 if params.pictures else np.float32)
    labels = np.zeros((0, count), np.uint8) if kind == "multi-label" else np.zeros(0, np.int64)
    split = Split(pixels, labels)
    mean, std = (normalisation(params, key, shape[0]) for key in ("mean", "std"))
    empty = DataSet(write(params), split, split, classes, kind, mean, std, fingerprint="")
    return replace(empty, named_by=named_by(params, empty), domains=card.domains)


def outline_table(params: OwnTable, data_dir: str) -> DataSet:
    """Describe a table by its schema."""
    path = find_own("dataset: table", params.schema, data_folder(data_dir or None), "schema")
    schema = read_schema(path)
    mean, std = schema.scale
    split = Split(np.zeros((0, len(mean)), np.float32), np.zeros(0, np.int64))
    table = DataSet(write(params), split, split, schema.classes, "single-label", mean, std, "")
    named, groups = named_by(params, table), find_groups(schema)
    return replace(table, named_by=named, categories=groups, schema=schema.text)
