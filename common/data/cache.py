"""Keeps decoded sets on disk and maps them into memory.

Flower may start a process for a single message; with the cache it has its data in milliseconds.

An entry is a folder with one .npy file per array and description.json. It appears under its name in
one step, so that two processes may decode the same set at the same time: the first to finish wins,
and the other uses that entry. Nothing is ever removed; the whole cache can be deleted at any time.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.common.data.files.raw import RawSplit
from fedmirage.common.data.set import DataSet, Split

# The version of the decoding: raise it when the same files would give other bytes or other facts.
VERSION = 2
DESCRIPTION = "description.json"
log = logging.getLogger("fedmirage")


def cache_folder() -> Path:
    """Return FEDMIRAGE_CACHE, or a folder in the home directory."""
    return Path(os.environ.get("FEDMIRAGE_CACHE") or "~/.cache/fedmirage/cache").expanduser()


def stamp_files(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return name, size and modification time of each file.

    This is cheap, and it changes as soon as a file is replaced.
    """
    found = [(file, file.stat()) for file in files]
    return [(str(file.absolute()), status.st_size, status.st_mtime_ns) for file, status in found]


def load_or_build(
    name: str, key: Any, build: Callable[[], DataSet], private: bool = False
) -> DataSet:
    """Return the set stored under `key` (any JSON value); build and store it if there is none.

    A private entry can be read by its owner only; FEDMIRAGE_CACHE_OWN=0 makes none of it.
    """
    if private and os.environ.get("FEDMIRAGE_CACHE_OWN") == "0":
        return build()
    digest = hashlib.sha256(json.dumps([VERSION, name, key], sort_keys=True).encode()).hexdigest()
    entry = cache_folder() / f"{name}-{digest[:24]}"
    stored = _load(entry)
    if stored is not None:
        return stored
    built = build()
    try:
        _store(entry, built, 0o700 if private else 0o755)
    except OSError as error:
        log.warning(
            "the decoded data cannot be stored in %s (%s), so every process decodes them again;"
            " set FEDMIRAGE_CACHE to a folder that can be written",
            entry,
            error,
        )
        return built
    return _load(entry) or built


def content_fingerprint(train: Split | RawSplit, test: Split | RawSplit) -> str:
    """Return the SHA-256 of the shapes, pictures, labels and columns of both splits."""
    digest = hashlib.sha256()
    for split in (train, test):
        for name, values in (
            ("images", split.images),
            ("labels", split.labels),
            *sorted(split.columns.items()),
        ):
            digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def _store(entry: Path, dataset: DataSet, mode: int) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{entry.name}.", dir=entry.parent))
    try:
        arrays = _arrays(dataset)
        for number, values in enumerate(arrays.values()):
            np.save(temporary / f"{number}.npy", np.ascontiguousarray(values), allow_pickle=False)
        facts: dict[str, Any] = {item.name: getattr(dataset, item.name) for item in fields(dataset)}
        del facts["train"], facts["test"]
        facts["arrays"] = {
            name: [list(values.shape), values.dtype.str] for name, values in arrays.items()
        }
        (temporary / DESCRIPTION).write_text(json.dumps(facts))
        for path in temporary.iterdir():
            path.chmod(mode & 0o666)
        temporary.chmod(mode)
        if entry.exists() and _load(entry) is None:
            # It is damaged: move it out of the way. A process that has mapped it keeps its data.
            damaged = Path(tempfile.mkdtemp(prefix=f".{entry.name}.damaged.", dir=entry.parent))
            os.replace(entry, damaged / "entry")
            shutil.rmtree(damaged, ignore_errors=True)
        try:
            os.rename(temporary, entry)
        except OSError:
            if not entry.is_dir():  # otherwise another process was faster and stored the same set
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _load(entry: Path) -> DataSet | None:
    """Return the set of an entry, or None if the entry is absent or damaged."""
    try:
        facts = json.loads((entry / DESCRIPTION).read_text())
        arrays = {}
        for number, (name, (shape, dtype)) in enumerate(facts.pop("arrays").items()):
            mode: Any = "r" if 0 not in shape else None  # an empty array cannot be memory-mapped
            values = np.asarray(
                np.load(entry / f"{number}.npy", mmap_mode=mode, allow_pickle=False)
            )
            if list(values.shape) != shape or values.dtype.str != dtype:
                raise ValueError(f"{name} is {values.dtype} {values.shape}")
            arrays[name] = values
        facts = {
            key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
        }
        named = facts.pop("column_names", {})
        facts["column_names"] = {name: tuple(texts) for name, texts in named.items()}
        return DataSet(train=_split(arrays, "train"), test=_split(arrays, "test"), **facts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
        log.warning("the cache entry %s is damaged (%s) and will be rebuilt", entry, error)
        return None


def _arrays(dataset: DataSet) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name, split in (("train", dataset.train), ("test", dataset.test)):
        arrays |= {f"{name} images": split.images, f"{name} labels": split.labels}
        arrays |= {f"{name} column {column}": values for column, values in split.columns.items()}
    return arrays


def _split(arrays: dict[str, Any], name: str) -> Split:
    prefix = f"{name} column "
    columns = {
        key.removeprefix(prefix): values for key, values in arrays.items() if key.startswith(prefix)
    }
    return Split(arrays[f"{name} images"], arrays[f"{name} labels"], columns)
