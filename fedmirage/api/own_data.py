"""Data and splits that a Python program holds: written down once, then named like any other.

A run takes place in other processes, which read files. So arrays become one .npz file in the data
folder, under a name that follows from their content, and a split becomes a file of positions.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedmirage.common.errors import ConfigurationError, FedmirageError

if TYPE_CHECKING:
    from rich.console import Console

    from fedmirage.common.data.set import DataSet
    from fedmirage.common.settings.config import RunConfig

FOLDER = "given"  # inside the data folder
CLIENT = "client"  # the column that says whose sample it is
STAND_IN = {"dataset": f"npz(path='{FOLDER}')", "partition": "iid"}
Arrays = dict[str, Any]


class OwnData:
    """Data of your own for `dataset=`, with what else there is to say about them.

    `train` is a pair of arrays or tensors (images, labels), a Dataset of torch or of Hugging Face,
    a partitioner of flwr-datasets, or a list or dict with the data of one client each. `test` is
    like it; without it, a share of the training samples is held out, unless `train` is a dict with
    the keys train and test. `image` and `label` name the columns of a Hugging Face Dataset. The
    other keys are those of the data set `npz`: size, channels, mean, std, limit, test_share and
    classes.
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

    Also return what is wrong with them. Then nothing is written, and other settings stand in for
    them, so the caller finds what else is wrong.
    """
    objects = [key for key in STAND_IN if not isinstance(settings.get(key, ""), str)]
    if not objects:
        return dict(settings), []
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
    from fedmirage.api.samples import gather
    from fedmirage.common.data.catalogue.params import DATASETS
    from fedmirage.common.settings.language import Call, resolve, write

    data = settings["dataset"]
    data = data if isinstance(data, OwnData) else OwnData(data)
    gathered = gather(data.train, data.test, data.columns, console, most=1 if refused else None)
    problems = [f"dataset: {problem}" for problem in gathered.find_problems(data.keys)]
    named = CLIENT if gathered.clients else ""
    place = {"path": FOLDER, "columns": (named,)} if named else {"path": FOLDER}
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


def place_split(
    settings: dict[str, Any], base: RunConfig, seeds: Sequence[int], refused: bool
) -> list[str]:
    """Write the split that settings hold, and name the file instead; return what is wrong."""
    from fedmirage.common.data.loading import load
    from fedmirage.common.data.partitions.listed import check_listed, explain_shift

    given, where = settings["partition"], "partition"
    drawn = callable(given)
    if not drawn and not isinstance(given, list | tuple | Mapping):
        kind = type(given).__name__
        return [
            f"partition: {kind} is no split; write a line such as 'iid', a function, or a list or"
            " dict with the positions of every client"
        ]
    if refused:
        return [] if drawn else check_listed(where, given, None)[1]
    try:
        line = settings.get("dataset", base.dataset)
        dataset = load(line, base.data_dir or None, base.download)
    except FedmirageError as error:
        return getattr(error, "problems", [str(error)])
    if drawn:
        parts, problems = draw_parts(given, dataset, base.clients, seeds)
        content: Any = {"data": dataset.fingerprint, "seeds": parts}
    else:
        listed, problems = check_listed(where, given, len(dataset.train))
        problems += [explain_shift(where, dataset)] if dataset.divided else []
        settings.setdefault("clients", len(listed))
        content = [part.tolist() for part in listed]
    if not problems:
        text = json.dumps(content).encode()
        name = f"{FOLDER}/{hashlib.sha256(text).hexdigest()[:20]}.json"
        keep_file(name, base, lambda file: file.write(text))
        settings["partition"] = f"indices(path={name!r})"
    return problems


def draw_parts(
    function: Callable[..., Any], dataset: DataSet, clients: int, seeds: Sequence[int]
) -> tuple[dict[str, list[list[int]]], list[str]]:
    """Call a function that splits, once per seed; return the positions and what is wrong."""
    from fedmirage.api.items import locate_error
    from fedmirage.common.data.partitions.listed import check_listed
    from fedmirage.common.seeds import numpy_generator

    drawn: dict[str, list[list[int]]] = {}
    problems: list[str] = []
    for seed in seeds:
        try:
            generator = numpy_generator(seed, "partition", "indices")
            given = function(dataset.train.labels.copy(), clients, generator)
        except Exception as error:  # whatever a user's function raises
            problems.append(f"partition: the function raised {locate_error(error)}")
            continue
        parts, found = check_listed(
            "partition: what the function returns", given, len(dataset.train)
        )
        if not found and len(parts) != clients:
            found = [
                f"partition: the function returns {len(parts)} lists for clients={clients}; it must"
                " return one list of positions per client"
            ]
        problems += found
        drawn[str(seed)] = [part.tolist() for part in parts]
    return drawn, list(dict.fromkeys(problems))


def keep_arrays(arrays: Arrays, base: RunConfig, console: Console) -> str:
    """Write arrays into the data folder, unless they are there; return the path in it."""
    import numpy as np

    from fedmirage.show.words import say

    digest = hashlib.sha256()
    for name, values in arrays.items():
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).data)
    name = f"{FOLDER}/{digest.hexdigest()[:20]}.npz"
    if keep_file(name, base, lambda file: np.savez(file, **arrays)):
        say(console, f"the data are kept as {name} in the data folder")
    return name


def keep_file(name: str, base: RunConfig, write: Callable[[Any], Any]) -> bool:
    """Write a file that only its owner can read, whole or not at all; False if it is there."""
    from fedmirage.common.data.files.places import data_folder
    from fedmirage.common.drafts import name_draft, open_private, remove_drafts

    path = data_folder(base.data_dir or None) / name
    if path.exists():
        return False
    draft = name_draft(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_drafts(path.parent)
        with open(draft, "wb", opener=open_private) as file:
            write(file)
        draft.replace(path)
    except OSError as error:
        raise ConfigurationError(
            f"dataset: what you gave cannot be kept in {path.parent} ({error.strerror}); make room"
            " there, or name another folder with data_dir or FEDMIRAGE_DATA"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return True
