"""Finds the files of a set without opening them, because this happens at every use of the cache."""

from dataclasses import replace
from pathlib import Path

from fedmirage.common.data.catalogue import params as sets
from fedmirage.common.data.catalogue.derived import Cifar10C, DigitsDomains, MnistDomains
from fedmirage.common.data.catalogue.encoded import Embeddings, Texts
from fedmirage.common.data.catalogue.params import (
    DatasetParams,
    OwnParams,
    PictureParams,
    SkipParams,
    find_origin,
)
from fedmirage.common.data.files.genuine import find_genuine
from fedmirage.common.data.files.places import Source, find_own, homes, lazily, list_pictures
from fedmirage.common.data.files.raw import PictureForm, Raw
from fedmirage.common.errors import DataError


def locate(params: DatasetParams, data: Path) -> Source | None:
    """Find the source of a set: embedded, your own, or files in the data folder, or else None."""
    if isinstance(params, sets.EMBEDDED):
        return _embedded(params)
    if isinstance(params, Embeddings):
        return _encoded(params, data)
    if isinstance(params, sets.Hub):
        return _hub(params, homes(params, data)[0])
    if isinstance(params, OwnParams):
        return _own(params, data)
    if params.made_from() is not None:
        return _made(params, data)
    found = _parquet(params, homes(params, data)) if params.card.image else None
    return found or find_genuine(params, data)


def _embedded(params: DatasetParams) -> Source:
    read = lazily("files.formats.embedded.digits")
    if isinstance(params, sets.DigitsMulti):
        counts = params.per_image, params.train, params.test
        read = lazily("files.formats.embedded.digits_multi", *counts, params.seed)
    if isinstance(params, DigitsDomains):
        read = lazily("files.formats.embedded.digits_domains", params.seed)
    if isinstance(params, sets.Waves):
        read = lazily("derived.waves.make_waves", params.noise, params.seed)
    if isinstance(params, sets.BreastCancer | sets.Wine):
        read = lazily("files.formats.embedded.measurements", params.name)
    return Source(params.name, (), read)


def form_of(params: DatasetParams) -> PictureForm:
    """Return the form to which every picture of a set is converted."""
    if not isinstance(params, PictureParams):
        return PictureForm()
    shape = params.about().shape
    channels = params.channels or (shape[0] if shape else None)
    return PictureForm(params.size, channels, isinstance(params, SkipParams) and params.skip)


def _encoded(params: Embeddings, data: Path) -> Source | None:
    """Find the set that is encoded."""
    inner = params.inner
    origin = locate(inner, data)
    if origin is None:
        return None

    def read(form: PictureForm) -> Raw:
        from fedmirage.common.data.files.formats.encoded import encode_raw

        return encode_raw(origin.read(form_of(inner)), params.encoder)

    return replace(origin, read=read)


def _made(params: DatasetParams, data: Path) -> Source | None:
    """Find the set from which this one is made."""
    origin = locate(find_origin(params), data)
    if origin is None:
        return None

    def read(form: PictureForm) -> Raw:
        from fedmirage.common.data.derived import corrupted, digits

        if isinstance(params, Cifar10C):
            return corrupted.make_corrupted(origin.read(PictureForm(channels=3)), params, form)
        assert isinstance(params, MnistDomains)
        grey = origin.read(PictureForm(form.size, channels=1))
        return digits.make_domains(grey, params.seed, form.channels)

    return replace(origin, read=read)


def _own(params: OwnParams, data: Path) -> Source:
    path = find_own(f"dataset: {params.name}", params.path, data)
    if isinstance(params, sets.ImageFolder):
        return _image_folder(params, path)
    if isinstance(params, sets.Npz):
        facts = {"columns": params.columns, "tensors": not params.pictures}
        read = lazily("files.formats.npz.read_npz", path, **facts)
        return Source(str(path), (path,), read)
    if isinstance(params, Texts):
        facts = {"text": params.text, "label": params.label, "classes": params.about().classes}
        return Source(str(path), (path,), lazily("files.formats.texts.read_texts", path, **facts))
    if isinstance(params, sets.OwnTable):
        return _table(params, path, data)
    assert isinstance(params, sets.Parquet)
    return _own_parquet(params, path)


def _image_folder(params: sets.ImageFolder, path: Path) -> Source:
    if not path.is_dir():
        raise DataError(
            f"dataset: imagefolder(path={params.path!r}): {path} is a file; name the folder that"
            " holds the class folders"
        )
    train = path / "train" if (path / "train").is_dir() else path
    test = next(
        (path / name for name in params.card.test if train != path and (path / name).is_dir()), None
    )
    files = tuple(list_pictures(train) + (list_pictures(test) if test else []))
    if not files:
        raise DataError(
            f"dataset: imagefolder(path={params.path!r}): {train} has no <class>/<picture>.png"
            " (.jpg, ...) in it; put the pictures into one folder per class"
        )
    card = params.about()
    classes = card.classes or tuple(map(str, range(card.count or 0)))
    read = lazily("files.formats.folders.image_folder", train, test, classes=classes)
    return Source(str(path), files, read)


def _table(params: sets.OwnTable, path: Path, data: Path) -> Source:
    schema = find_own("dataset: table", params.schema, data, "schema")
    facts = {"schema": schema, "label": params.label, "columns": params.columns}
    return Source(str(path), (path, schema), lazily("tables.reading.read_table", path, **facts))


def _own_parquet(params: sets.Parquet, path: Path) -> Source:
    if path.is_file():
        return _parquet_source(params, path, (path,), (), params.columns)
    train = _shards(path, ("train",), "")
    test = _shards(path, params.card.test, "") if train else ()
    train = train or tuple(sorted(path.glob("*.parquet")))
    if not train:
        raise DataError(
            f"dataset: parquet(path={params.path!r}): {path} has no .parquet file in it; name the"
            " folder that has them"
        )
    return _parquet_source(params, path, train, test, params.columns)


def _hub(params: sets.Hub, folder: Path) -> Source | None:
    """Find what was fetched from the hub; a set may be without a test split."""
    train, test = (_shards(folder, (split,), "") for split in (params.train, params.test))
    return _parquet_source(params, folder, train, test, params.columns) if train else None


def _parquet(params: DatasetParams, folders: list[Path]) -> Source | None:
    card = params.about()
    for folder in folders:
        train = _shards(folder, ("train",), card.subset)
        test = _shards(folder, card.test, card.subset)
        if train and test:
            return _parquet_source(params, folder, train, test, tuple(card.columns))
    return None


def _parquet_source(
    params: DatasetParams,
    origin: Path,
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    columns: tuple[str, ...],
) -> Source:
    transposed = isinstance(params, sets.Emnist) and params.transposed
    facts = train, test, params.about(), columns, transposed, not params.pictures
    return Source(str(origin), train + test, lazily("files.formats.parquet.read_parquet", *facts))


def _shards(folder: Path, splits: tuple[str, ...], subset: str) -> tuple[Path, ...]:
    """Find the parquet files of a split under the names that the hub gives them."""
    named = [folder / subset] if subset else []
    for base in [folder, folder / "data", *named, folder / "default"]:
        for split in splits:
            for pattern in (
                f"{split}.parquet",
                f"{split}-*.parquet",
                f"*-{split}.parquet",
                f"{split}/*.parquet",
            ):
                found = tuple(sorted(base.glob(pattern))) if base.is_dir() else ()
                if found:
                    return found
    return ()
