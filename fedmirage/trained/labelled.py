"""Samples with labels on which a trained model can be judged, loaded as its run read its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomli_w
import torch
from torch import Tensor

from fedmirage.common.data.cache import cache_folder
from fedmirage.common.data.catalogue.params import (
    DATASETS,
    DatasetParams,
    ImageFolder,
    OwnTable,
    PictureParams,
)
from fedmirage.common.data.loading import load
from fedmirage.common.data.reading import Reading, describe_reading
from fedmirage.common.data.set import DataSet, Split
from fedmirage.common.data.tables.comparison import find_place, hash_schema
from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import ConfigurationError, DataError, refuse
from fedmirage.common.models.files import ModelFacts
from fedmirage.common.settings.language import resolve_line, write

SPLITS: dict[str, Callable[[DataSet], Split]] = {
    "test": lambda dataset: dataset.test,
    "train": lambda dataset: dataset.train,
    "all": lambda dataset: dataset.everything,
}
MOST_GROUPS = 100  # of one column; more are not told apart


@dataclass(frozen=True)
class Labelled:
    """Inputs of a model, their true labels, and to which groups they belong."""

    line: str  # the dataset line with what the model file adds to it
    what: str  # which of its samples, in words
    inputs: npt.NDArray[Any]  # as read from files
    labels: Tensor  # in the model's numbers
    remarks: list[str] = field(default_factory=list)
    # by column ("domain", "site", ...): the names of its groups, and the group of every sample
    groups: dict[str, tuple[tuple[str, ...], npt.NDArray[np.int64]]] = field(default_factory=dict)


def load_labelled(
    facts: ModelFacts, line: str, split: str = "test", data_dir: str = "", download: bool = False
) -> Labelled:
    """Load a split of a data set for a model; refuse one that the model was not made for."""
    if split not in SPLITS:
        raise ConfigurationError(f"split={split!r}: write one of {', '.join(SPLITS)}")
    chosen = [adapt(params, facts) for params in resolve_line(line, DATASETS, "dataset")]
    _check_encoder(describe_reading(chosen), facts)
    told = ", ".join(map(write, chosen))
    dataset = load(told, data_dir or None, download)
    check_fit(dataset, facts)
    samples = SPLITS[split](dataset)
    if not len(samples):
        raise DataError(
            f"{told} has no samples in its {split} split; write --split all, or choose other data"
        )
    remark = (
        "The files have no test split, so this is the share that a run holds out of them;"
        " --split all takes all samples."
    )
    remarks = [remark] if dataset.divided and split == "test" else []
    return label(facts, dataset, samples, told, f"the {split} split", remarks)


def label(
    facts: ModelFacts, dataset: DataSet, samples: Split, line: str, what: str, remarks: list[str]
) -> Labelled:
    """Number the classes of samples as a model does."""
    labels = torch.from_numpy(renumber(dataset, samples.labels, facts))
    groups = _find_groups(dataset, samples, remarks)
    return Labelled(line, what, samples.images, labels, remarks, groups)


def adapt(params: DatasetParams, facts: ModelFacts) -> DatasetParams:
    """Add to the line what the model file says: size, channels and the names of classes."""
    how = facts.reading
    more: dict[str, Any] = {}
    if how is not None and facts.pictures and isinstance(params, PictureParams) and params.pictures:
        given = {"size": how.size, "channels": how.channels}
        more = {key: value for key, value in given.items() if key not in params.model_fields_set}
    if isinstance(params, ImageFolder) and params.classes is None and facts.named_by != "numbers":
        more["classes"] = facts.classes  # folders that are not there are classes, too
    if isinstance(params, OwnTable) and "schema" not in params.model_fields_set and facts.schema:
        more["schema"] = str(write_schema(facts.schema))
    return params.model_copy(update={key: value for key, value in more.items() if value})


def write_schema(text: str) -> Path:
    """Write the schema of a model into a file of the cache, and return its path."""
    path = cache_folder() / "schemas" / f"{hash_schema(text)[:32]}.toml"
    if not path.exists():
        write_whole(path, tomli_w.dumps(json.loads(text)).encode(), private=True)
    return path


def check_fit(dataset: DataSet, facts: ModelFacts) -> None:
    """Refuse a set whose inputs or labels are not those of the model, with all reasons at once."""
    problems = []
    if (dataset.shape, dataset.pictures) != (facts.shape, facts.pictures):
        seen, wanted = ("x".join(map(str, shape)) for shape in (dataset.shape, facts.shape))
        what = "pictures" if facts.pictures else "inputs"
        problems.append(
            f"dataset: the inputs of {dataset.name} have the shape {seen}, and the model takes"
            f" {what} of {wanted}; write size= and channels= if they can be converted, or choose"
            " other data"
        )
    if dataset.task != facts.task:
        problems.append(
            f"dataset: {dataset.name} is {dataset.task}, and the model {facts.task}; choose other"
            " data"
        )
    if dataset.schema and facts.schema and dataset.schema != facts.schema:
        problems.append(
            f"dataset: the schema of {dataset.name} is not the model's:"
            f" {find_place(dataset.schema, facts.schema)}; leave schema= out to use the model's"
        )
    problems += _find_strangers(dataset, facts)
    refuse(problems)


def renumber(
    dataset: DataSet, labels: npt.NDArray[np.int64] | npt.NDArray[np.uint8], facts: ModelFacts
) -> npt.NDArray[np.int64]:
    """Number the classes of a set as the model does, by their names where both have some."""
    places = np.arange(len(dataset.classes))
    if _have_names(dataset, facts):
        places = np.array([facts.classes.index(name) for name in dataset.classes])
    if labels.ndim == 1:
        return np.asarray(places[labels], np.int64)
    whole = np.zeros((len(labels), len(facts.classes)), np.int64)
    whole[:, places] = labels
    return whole


def _have_names(dataset: DataSet, facts: ModelFacts) -> bool:
    """Whether names decide; published sets are all numbered as their publishers did."""
    kinds = {dataset.named_by, facts.named_by}
    return "numbers" not in kinds and "own" in kinds


def _find_strangers(dataset: DataSet, facts: ModelFacts) -> list[str]:
    known = ", ".join(facts.classes)
    if _have_names(dataset, facts):
        strangers = [repr(name) for name in dataset.classes if name not in facts.classes]
        return [
            f"dataset: {dataset.name} has the classes {', '.join(strangers)}, which the model does"
            f" not know; its classes are {known}: rename or remove them"
        ] * bool(strangers)
    if len(dataset.classes) == len(facts.classes):
        return []
    return [
        f"dataset: {dataset.name} has {len(dataset.classes)} classes, and the model"
        f" {len(facts.classes)} ({known}); write classes={len(facts.classes)} if some are absent,"
        " or choose other data"
    ]


def _check_encoder(found: Reading, facts: ModelFacts) -> None:
    known = facts.reading or Reading()
    if known.encoder and found.source != known.source:
        raise ConfigurationError(
            f"dataset: the model was trained on what the encoder {known.encoder!r}"
            f" ({known.source[:15]}) made, and this line uses"
            f" {f'{found.encoder!r} ({found.source[:15]})' if found.encoder else 'none'}; use the"
            " encoder of the run"
        )


def _find_groups(
    dataset: DataSet, samples: Split, remarks: list[str]
) -> dict[str, tuple[tuple[str, ...], npt.NDArray[np.int64]]]:
    """Find the groups by which accuracies are told: sites, domains, and columns that are named."""
    groups = {}
    for name, values in samples.columns.items():
        known, positions = np.unique(values, return_inverse=True)
        if len(known) > MOST_GROUPS:
            remarks.append(
                f"The column {name!r} has {len(known)} values, which are not told apart here."
            )
            continue
        told = dataset.domains if name == "domain" else dataset.column_names.get(name, ())
        groups[name] = tuple(told[at] if told else str(at) for at in known.tolist()), positions
    return groups
