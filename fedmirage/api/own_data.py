"""Data and splits that a Python program holds: written down once, then named like any other.

A run takes place in other processes, which read files. So arrays become one .npz file in the data
folder, under a name that follows from their content, and a split becomes a file of positions.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fedmirage.common.data.files.places import GIVEN, data_folder, note_use
from fedmirage.common.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console

    from fedmirage.common.settings.config import RunConfig

CLIENT = "client"  # the column that says whose sample it is
STAND_IN = {"dataset": f"npz(path='{GIVEN}')", "partition": "iid"}
LIMIT = 10 * 2**30  # bytes of data that are kept; beyond it, what no run reads is removed
UNREAD = 30 * 24 * 3600  # seconds after which nothing seems to need a file
Arrays = dict[str, Any]


class OwnData:
    """Data of your own for `dataset=`, with what else there is to say about them.

    `train` is a pair of arrays or tensors (images, labels), a Dataset of torch or of Hugging Face,
    a partitioner of flwr-datasets, or a list or dict with the data of one client each. `test` is
    like it; without it, a share of the training samples is held out, unless `train` is a dict with
    the keys train and test. `image` and `label` name the columns of a Hugging Face Dataset. The
    other keys are those of the data set `npz`: inputs, size, channels, mean, std, limit, test_share
    and classes; with inputs="tensors", images may be numbers of any fixed shape.
    """

    def __init__(
        self,
        train: Any,
        test: Any = None,
        *,
        image: str | None = None,
        label: str | None = None,
        **keys: Any,
    ) -> None:
        self.train, self.test, self.columns, self.keys = train, test, (image, label), keys


def take_in(
    settings: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    console: Console,
    seeds: Sequence[int] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Write the data and the split that settings hold into files; return settings that name these.

    Also return what is wrong with them; then other settings stand in for them, so the caller finds
    what else is wrong. Data that have a fault are not written.
    """
    objects = [key for key in STAND_IN if not isinstance(settings.get(key, ""), str)]
    if not objects:
        return dict(settings), []
    from fedmirage.api.own_split import place_split
    from fedmirage.common.settings.config import configure

    elsewhere = {key: "" for key in ("out", "resume") if key in settings}
    stand_in = {**settings, **{key: STAND_IN[key] for key in objects}, **elsewhere}
    try:
        base, refused = configure(*layers, stand_in), False
    except ConfigurationError:  # the caller finds it again, so only the beginning of data is read
        base, refused = configure(), True
    made, problems = dict(settings), list[str]()
    if "dataset" in objects:
        problems += place_data(made, base, console, refused)
    if "partition" in objects:
        numbers = [base.seed] if seeds is None else seeds
        problems += place_split(made, base, numbers, bool(problems) or refused)
    return (stand_in, problems) if problems or refused else (made, [])


def place_data(
    settings: dict[str, Any], base: RunConfig, console: Console, refused: bool
) -> list[str]:
    """Write the data that settings hold, and name the file instead; return what is wrong."""
    from fedmirage.api.samples import Conversion, gather
    from fedmirage.common.data.catalogue.params import DATASETS
    from fedmirage.common.data.files.formats.npz import to_bytes, to_floats
    from fedmirage.common.settings.language import Call, resolve, write

    data = settings["dataset"]
    data = data if isinstance(data, OwnData) else OwnData(data)
    convert = to_floats if data.keys.get("inputs") == "tensors" else to_bytes
    how = Conversion(data.columns, console, 1 if refused else None, convert)
    gathered = gather(data.train, data.test, how)
    problems = [f"dataset: {problem}" for problem in gathered.find_problems(data.keys)]
    named = CLIENT if gathered.clients else ""
    place = {"path": GIVEN, "columns": (named,)} if named else {"path": GIVEN}
    try:
        params = resolve(Call("npz", data.keys | place), DATASETS, "dataset")
    except ConfigurationError as error:
        problems += error.problems
    problems += [
        f"dataset: OwnData has no key {key!r}; leave it out" for key in place if key in data.keys
    ]
    if problems or refused:
        return problems
    file = keep_arrays(gathered.arrays(named), base, console)
    settings["dataset"] = write(params.model_copy(update={"path": file}))
    if named and "partition" not in settings:
        settings["partition"] = f"natural(by={CLIENT!r})"
        settings.setdefault("clients", gathered.clients)
    return []


def keep_arrays(arrays: Arrays, base: RunConfig, console: Console) -> str:
    """Write arrays into the data folder, unless they are there; return the path in it."""
    import numpy as np

    from fedmirage.show.words import say

    digest = hashlib.sha256()
    for name, values in arrays.items():
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).data)
    name = f"{GIVEN}/{digest.hexdigest()[:20]}.npz"
    if keep_file(name, base, lambda file: np.savez(file, **arrays)):
        say(console, f"the data are kept as {name} in the data folder")
        if told := remove_unread(data_folder(base.data_dir or None) / GIVEN):
            say(console, told)
    return name


def remove_unread(folder: Path) -> str:
    """Remove what no run has read for a month while the folder is too large; say what was done."""
    found = {path: path.stat() for path in folder.glob("[!.]*")}
    size, removed = sum(status.st_size for status in found.values()), 0
    read = {path: max(status.st_atime, status.st_mtime) for path, status in found.items()}
    for path in sorted(read, key=lambda path: read[path]):
        if size <= LIMIT or time.time() - read[path] < UNREAD:
            break
        path.unlink(missing_ok=True)
        size, removed = size - found[path].st_size, removed + 1
    told = [
        f"removed what no run had read for a month from {folder}: {removed} of {len(found)} files"
    ]
    told *= bool(removed)
    if size > LIMIT:
        told.append(f"{folder} holds {size / 2**30:.1f} GiB; delete there what no run needs")
    return "; ".join(told)


def keep_file(name: str, base: RunConfig, write: Callable[[BinaryIO], object]) -> bool:
    """Write a file that only its owner can read, whole or not at all; False if it is there."""
    from fedmirage.common.drafts import remove_drafts, write_whole

    path = data_folder(base.data_dir or None) / name
    if path.exists():
        note_use(path)
        return False
    try:
        remove_drafts(path.parent)
        write_whole(path, write, private=True)
    except OSError as error:
        raise ConfigurationError(
            f"dataset: what you gave cannot be kept in {path.parent} ({error.strerror}); make room"
            " there, or name another folder with data_dir or FEDMIRAGE_DATA"
        ) from None
    return True
