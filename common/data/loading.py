"""From the `dataset` line to a DataSet: find the files, decode, check and cache them."""

import logging
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.common.data.cache import content_fingerprint, load_or_build, stamp_files
from fedmirage.common.data.catalogue.encoded import Embeddings, Texts
from fedmirage.common.data.catalogue.params import (
    DATASETS,
    DatasetParams,
    Hub,
    ImageFolder,
    OwnParams,
    PictureParams,
    find_origin,
)
from fedmirage.common.data.combine import combine
from fedmirage.common.data.files.checks import check_lengths, check_splits
from fedmirage.common.data.files.places import Source, data_folder, homes
from fedmirage.common.data.files.sources import form_of, locate
from fedmirage.common.data.set import DataSet, NamedBy
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.own_code import hash_source
from fedmirage.common.settings.language import resolve_line, write

log = logging.getLogger("fedmirage")
UNSCALED = {"mean": (0.0,), "std": (1.0,)}  # of inputs that are no pictures, unless given


def load(
    line: str,
    data_dir: str | Path | None = None,
    download: bool = False,
    *,
    any_of_hub: bool = True,
) -> DataSet:
    """Load the data set that `line` describes.

    Several names give one set with a column "domain": the position of the name in the line.
    `data_dir` is the data folder (default: FEDMIRAGE_DATA, else ~/.cache/fedmirage/data).
    `download` allows a missing set to be fetched from the hub; without `any_of_hub`, none that the
    line names by its path there (`hub`).
    """
    chosen = resolve_line(line, DATASETS, "dataset")
    folder = data_folder(data_dir)
    parts = [
        load_one(params, folder, download and (any_of_hub or not isinstance(params, Hub)))
        for params in chosen
    ]
    own = any(isinstance(params, OwnParams) for params in chosen)
    return parts[0] if len(parts) == 1 else combine(parts, name_sources(chosen), private=own)


def require_files(line: str, data_dir: str | Path | None = None, download: bool = False) -> None:
    """Refuse a line whose files are not on this host and may not be fetched; reads none of them."""
    folder = data_folder(data_dir)
    for params in resolve_line(line, DATASETS, "dataset"):
        if not download and locate(params, folder) is None:
            read = params.inner if isinstance(params, Embeddings) else params
            raise DataError(_missing(read, folder, download))


def list_available(data_dir: str | Path | None = None) -> dict[str, str | None]:
    """Say for each embedded or published set where it was found, or None if it was not.

    For EMNIST this is its default split.
    """
    own = OwnParams | Embeddings
    kinds = {name: kind for name, kind in DATASETS.items() if not issubclass(kind, own)}
    sources = {name: locate(kind(), data_folder(data_dir)) for name, kind in kinds.items()}
    return {
        name: ("embedded" if not source.files else source.origin) if source else None
        for name, source in sources.items()
    }


def load_one(params: DatasetParams, folder: Path, download: bool) -> DataSet:
    """Load one set; it is decoded once per combination of files and parameters."""
    if isinstance(params, Texts):
        raise ConfigurationError(
            f"dataset: {write(params)} holds texts, which no network here reads; write"
            ' embeddings(of="texts(...)", encoder="module:function")'
        )
    source, origin = locate(params, folder), find_origin(params)
    if source is None and download and origin.about().hub:
        from fedmirage.common.data.files.hub import fetch

        fetch(origin, homes(origin, folder)[0])
        source = locate(params, folder)
    if source is None:
        read = params.inner if isinstance(params, Embeddings) else params
        raise DataError(_missing(read, folder, download))
    found = source
    key = [params.model_dump(mode="json", exclude={"mean", "std"}), stamp_files(found.files)]
    if isinstance(params, Embeddings):
        key.append(hash_source(params.encoder))
    own = isinstance(params, OwnParams | Embeddings)
    dataset = load_or_build(params.name, key, lambda: _decode(params, found), private=own)
    facts: dict[str, Any] = {"named_by": named_by(params, dataset)}
    facts["domains"] = _domains(params, dataset)
    if isinstance(params, PictureParams):
        facts |= {key: normalisation(params, key, dataset.shape[0]) for key in ("mean", "std")}
    return replace(dataset, name=write(params), **facts)


def name_sources(chosen: list[DatasetParams]) -> tuple[str, ...]:
    """Name the domains of several sets as briefly as tells them apart.

    That is by the sets' names, else by those of their folders and files, else by all parameters.
    """
    brief = tuple(params.name for params in chosen)
    places = tuple(
        Path(params.path).stem if isinstance(params, OwnParams) else params.name
        for params in chosen
    )
    tried = (brief, places)
    different = (names for names in tried if len(set(names)) == len(names))
    return next(different, tuple(write(params) for params in chosen))


def _decode(params: DatasetParams, source: Source) -> DataSet:
    card = params.about()
    raw = source.read(form_of(params))
    check_lengths(source.origin, raw)
    divided = raw.test is None
    skipped = [why for split in (raw.train, raw.test) if split for why in split.skipped]
    for why in skipped:
        log.warning("a picture is left out (skip): %s", why)
    if divided:
        # imported here, because it loads torch, which most sets do not need
        from fedmirage.common.data.holdout import hold_out_test

        raw = hold_out_test(raw, getattr(params, "test_share", 0.0))
    expected = None if isinstance(params, OwnParams) and params.pictures else params.known_shape
    train, test, classes, task = check_splits(source.origin, raw, card, expected)
    fingerprint = content_fingerprint(train, test)
    if params.limit is not None:
        from fedmirage.common.data.holdout import limit_samples

        train, test = limit_samples(train, test, params.limit, fingerprint)
        fingerprint = content_fingerprint(train, test)
    mean, std = raw.scale or (card.mean, card.std)
    facts: dict[str, Any] = {"categories": raw.categories, "divided": divided}
    facts |= {"schema": raw.schema, "skipped": len(skipped), "column_names": raw.column_names}
    return DataSet(params.name, train, test, classes, task, mean, std, fingerprint, **facts)


def named_by(params: DatasetParams, dataset: DataSet) -> NamedBy:
    """Say where the class names come from; arrays and parquet files may have none, folders do."""
    if isinstance(params, Embeddings):
        return named_by(params.inner, dataset)
    if not isinstance(params, OwnParams):
        return "published"
    numbers = tuple(map(str, range(len(dataset.classes))))
    named = isinstance(params, ImageFolder) or isinstance(params.classes, tuple)
    return "own" if named or dataset.classes != numbers else "numbers"


def _domains(params: DatasetParams, dataset: DataSet) -> tuple[str, ...]:
    """Name the domains: as the card does, or else those of a column in the files by number."""
    if params.about().domains:
        return params.about().domains
    columns = [split.columns.get("domain") for split in (dataset.train, dataset.test)]
    top = max((column.max(initial=-1) for column in columns if column is not None), default=-1)
    return tuple(map(str, range(int(top) + 1)))


def normalisation(params: DatasetParams, key: str, channels: int) -> tuple[float, ...]:
    """Return one number per channel: the user's or else the set's own.

    The set's numbers are averaged or repeated where the channels of its pictures were.
    """
    given = getattr(params, key, None)
    if isinstance(given, tuple) and len(given) != channels:
        wanted = "a number" if channels == 1 else f"a number or {channels} numbers"
        raise ConfigurationError(
            f"dataset: {params.name}({key}={given}): the inputs have {channels} channels;"
            f" write {wanted}"
        )
    written = given if isinstance(given, tuple) else (given,)
    usual = getattr(params.card, key) if params.pictures else UNSCALED[key]
    values = usual if given is None else written
    if len(values) == channels:
        return tuple(map(float, values))
    return (float(np.mean(values)),) * channels


def _missing(params: DatasetParams, folder: Path, download: bool) -> str:
    origin = find_origin(params)
    card = origin.about()
    if isinstance(params, Hub):
        line = write(params)
        line = shlex.quote(line if '"' in line else line.replace("'", '"'))
        return (
            f"dataset: {write(params)} is not in {homes(params, folder)[0]}; add --download to"
            " fetch it from the hub. A node never downloads it for a run: its owner runs there"
            f" fedmirage partition --dataset {line} --partition iid --download"
        )
    hub = f"train*.parquet and {card.test[0]}*.parquet as on the hub, or " if card.image else ""
    looked = f"looked for {hub}{card.files}, in "
    looked += ", ".join(str(home) for home in homes(origin, folder))
    ways = (
        f"get them from {card.origin} and put them into the first of these, or name another data"
        " folder (data-dir)"
    )
    if card.hub and not download:
        ways += f", or add --download to fetch {card.hub} from the hub"
    elif not card.hub:
        ways += "; --download does not help here: no copy on the hub is known"
    needed = f" (needed for {params.name})" if origin is not params else ""
    return f"dataset: {origin.name}{needed} was not found: {looked}; {ways}"
