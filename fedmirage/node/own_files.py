"""Checks the data of a node before it joins: what a run would find there, and what would fail.

The run's own line of the data set is not known yet, so the check tells which line fits the files.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedmirage.common.data.files.decoding import open_picture
from fedmirage.common.data.files.places import list_pictures
from fedmirage.common.data.files.raw import PictureForm
from fedmirage.common.data.loading import list_available
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.node.findings import FAULT, OK, WARNING, Finding

SPLITS = ("train", "test")
ARRAYS = {".npz": "npz", ".parquet": "parquet"}
ROWS = (".csv", ".jsonl")


@dataclass
class OwnFiles:
    """What the files of a node hold."""

    kind: str  # as the line of a run calls it
    noun: str = "pictures"
    counts: dict[str, Counter[str]] = field(default_factory=dict)  # split -> class -> samples
    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)  # a sentence each
    digests: dict[str, dict[bytes, str]] = field(default_factory=dict)  # split -> content -> name
    line: str = ""

    def add(self, split: str, name: str, kind: str, shape: tuple[int, ...], content: bytes) -> None:
        """Count one sample."""
        self.counts.setdefault(split, Counter())[kind] += 1
        self.shapes[shape] += 1
        digest = hashlib.sha256(repr(shape).encode() + content).digest()
        self.digests.setdefault(split, {})[digest] = name

    @property
    def samples(self) -> int:
        """How many samples can be read."""
        return self.shapes.total()

    @property
    def duplicates(self) -> list[str]:
        """The names of test samples that are also among the training samples."""
        train, test = (self.digests.get(split, {}) for split in SPLITS)
        return [name for digest, name in test.items() if digest in train]


def examine_data(path: Path, skip: bool, schema: str = "") -> list[Finding]:
    """Look at all of a node's own data; say everything that is wrong with them.

    With a schema, they are a table.
    """
    try:
        if schema:
            from fedmirage.node.own_arrays import read_own_table

            return list(judge(path, read_own_table(path.expanduser(), schema), skip))
        return list(examine_files(path.expanduser(), skip))
    except (FedmirageError, OSError) as error:
        return [Finding(FAULT, "data", str(error))]


def examine_files(path: Path, skip: bool) -> Iterator[Finding]:
    """Find out what kind of data a path holds, and look at them."""
    ending = path.suffix.lower()
    if path.is_file() and ending not in (*ARRAYS, *ROWS):
        known = ", ".join((*ARRAYS, *ROWS))
        told = f"{path} is no data: name a folder with a folder per class, or a file with {known}"
        yield Finding(FAULT, "data", told)
    elif path.is_file() and ending in ROWS:
        yield from examine_rows(path)
    elif path.is_file() or find_parquet(path):
        yield from examine_arrays(path, ARRAYS.get(ending, "parquet"), skip)
    elif found := find_published(path):
        yield Finding(OK, "data", f"{path} holds {', '.join(found)}; the run's line names one")
    elif class_folders(path):
        yield from judge(path, read_folder(path), skip)
    else:
        yield Finding(
            FAULT,
            "data",
            f"{path} has no folder with pictures in it; put the pictures of each class into a"
            f" folder of their own, {path}/<class>/<picture>.png (.jpg, ...), or name an .npz or"
            " .parquet file",
        )


def examine_arrays(path: Path, kind: str, skip: bool) -> Iterator[Finding]:
    """Look at an .npz or parquet file."""
    from fedmirage.node.own_arrays import find_unnamed, read_own_arrays

    if kind == "parquet" and (columns := find_unnamed(path)):
        told = f"{path} has the columns {columns}; the run's line must say which are meant"
        told += " (image=..., label=...), so nothing else of it is checked"
        yield Finding(WARNING, "data", told)
        return
    yield from judge(path, read_own_arrays(path, kind), skip)


def class_folders(path: Path) -> bool:
    """Whether a folder holds pictures in folders, even if they cannot be read."""
    return path.is_dir() and bool(list_pictures(path))


def find_parquet(path: Path) -> bool:
    """Whether a folder holds parquet files of its own, not of a published set below it."""
    return path.is_dir() and any(path.glob("*.parquet"))


def find_published(path: Path) -> list[str]:
    """Name the published sets whose files are in a folder."""
    return [
        name
        for name, origin in list_available(path).items()
        if origin and origin != "embedded" and Path(origin).is_relative_to(path)
    ]


def read_folder(path: Path) -> OwnFiles:
    """Decode every picture of a folder at its own size."""
    found = OwnFiles("imagefolder")
    inner = (path / "train").is_dir()
    tests = [name for name in ("test", "val", "valid") if inner and (path / name).is_dir()]
    tops = {"train": path / "train" if inner else path}
    tops |= {"test": path / tests[0]} if tests else {}
    for split, top in tops.items():
        found.counts[split] = Counter()
        for kind in sorted(one.name for one in top.iterdir() if one.is_dir()):
            if not kind.startswith("."):
                found.counts[split][kind] = 0
        for file in list_pictures(top):
            name = str(file.relative_to(path))
            try:
                pixels = open_picture(name, file, PictureForm())
            except DataError as error:
                found.unreadable.append(str(error))
                continue
            kind = file.relative_to(top).parts[0]
            found.add(split, name, kind, pixels.shape, pixels.tobytes())
    classes = sorted(set().union(*found.counts.values()))
    found.line = write_line(found, f"classes={tuple(classes)}")
    return found


def write_line(found: OwnFiles, *more: str) -> str:
    """Write the line of the data set that a run needs for such files."""
    sizes = Counter[int]()
    for shape, count in found.shapes.items():
        sizes[max(shape[1:], default=1)] += count
    words = ['path="..."']
    if found.noun == "pictures":
        several = len({shape[1:] for shape in found.shapes}) > 1
        channels = {shape[0] for shape in found.shapes}
        words += [f"size={sizes.most_common(1)[0][0]}"] if several else []
        words += [f"channels={max(channels)}"] if len(channels) > 1 else []
    return f"{found.kind}({', '.join([*words, *more])})"


def judge(path: Path, found: OwnFiles, skip: bool) -> Iterator[Finding]:
    """Say what the samples are, and what is wrong with them."""
    if found.samples:
        yield Finding(OK, "data", f"{path}: {describe_counts(found)}")
    yield from judge_unreadable(path, found, skip)
    yield from judge_classes(found)
    yield from judge_shapes(found)
    if not found.counts.get("test"):
        yield Finding(OK, "test split", "none; all samples are for training")
    elif copies := found.duplicates:
        names = ", ".join(copies)
        told = f"also among the training {found.noun}, of {len(copies)} test samples: {names};"
        told += " remove them from one of the two, or scores are too good"
        yield Finding(WARNING, "duplicates", told)
    else:
        yield Finding(OK, "duplicates", f"no test sample is among the training {found.noun}")
    if found.samples:
        told = f"{found.line}, with the same size, channels and classes on every node"
        yield Finding(OK, "the run's line", told)


def describe_counts(found: OwnFiles) -> str:
    """Say how many samples of each class there are, by split."""
    parts = []
    for split in SPLITS:
        if counts := found.counts.get(split):
            classes = ", ".join(f"{name} {count}" for name, count in counts.items())
            parts.append(f"{counts.total()} {found.noun} for {split}ing ({classes})")
    return "; ".join(parts)


def judge_unreadable(path: Path, found: OwnFiles, skip: bool) -> Iterator[Finding]:
    """Name every picture that cannot be read, and say what follows from it."""
    lost = found.unreadable
    if not lost:
        return
    total = len(lost) + found.samples
    listed = "\n".join(lost)
    if not found.samples:
        told = f"none of the {total} pictures in {path} can be read:\n{listed}"
        yield Finding(FAULT, "unreadable", told)
    elif skip:
        told = f"{len(lost)} of {total} pictures cannot be read and are left out (skip):\n{listed}"
        yield Finding(WARNING, "unreadable", told)
    else:
        told = (
            f"{len(lost)} of {total} pictures cannot be read, so no run can use any of them; mend"
            f" or remove them, or leave them out with skip=true in --node-config:\n{listed}"
        )
        yield Finding(FAULT, "unreadable", told)


def judge_classes(found: OwnFiles) -> Iterator[Finding]:
    """Say which classes are empty, and whether there is only one."""
    counts = found.counts.get("train", Counter())
    held = [name for name, count in counts.items() if count]
    if empty := [name for name, count in counts.items() if not count]:
        told = f"{', '.join(empty)}: no training sample; put some there or remove the folder"
        yield Finding(WARNING, "classes", told)
    if len(held) == 1:
        told = f"all training samples are of one class, {held[0]}, so only a run whose line names"
        told += " all classes can use them (classes=...); add the others if this is a mistake"
        yield Finding(WARNING, "classes", told)


def judge_shapes(found: OwnFiles) -> Iterator[Finding]:
    """Say which shapes the inputs have."""
    if not found.samples:
        return
    shapes = [
        f"{'x'.join(map(str, shape))} ({count})" for shape, count in found.shapes.most_common()
    ]
    what = "channels x height x width" if found.noun == "pictures" else "channels first"
    if len(shapes) == 1:
        yield Finding(OK, "size", f"{shapes[0]}, {what}")
        return
    told = f"{', '.join(shapes)}, {what}; the run's line must convert them, as below"
    yield Finding(WARNING, "size", told)


def examine_rows(path: Path) -> Iterator[Finding]:
    """Look at a file of texts; which columns are used, and by which encoder, is for the run."""
    from fedmirage.common.data.files.formats.texts import read_rows

    table = read_rows(path)
    columns: Sequence[str] = table.column_names
    if not len(table):
        yield Finding(FAULT, "data", f"{path} has no rows; write one per sample")
        return
    yield Finding(OK, "data", f"{path}: {len(table)} rows with the columns {', '.join(columns)}")
    missing = [name for name in columns if table.column(name).null_count]
    if missing:
        told = f"values of {', '.join(missing)} are missing in some rows; fill or drop them if a"
        yield Finding(WARNING, "columns", f"{told} run uses these columns")
    yield from judge_labels(columns, table.column("label") if "label" in columns else ())
    told = 'embeddings(of="texts(path=\'...\')", encoder="module:function")'
    told += "; this node must list the encoder in allow=. For a table of numbers name its schema:"
    yield Finding(OK, "the run's line", f'{told} schema="schema.toml" in --node-config')


def judge_labels(columns: Sequence[str], labels: Iterable[object]) -> Iterator[Finding]:
    """Say how many rows have each label, where the column has the usual name."""
    for name in ("text", "label"):
        if name not in columns:
            told = f"there is no column {name!r}; the run's line must name it: texts({name}=...)"
            yield Finding(WARNING, "columns", told)
    counts = Counter(str(label) for label in labels)
    if len(counts) == 1:
        told = f"all rows have the label {next(iter(counts))}; the run's line must name all classes"
        yield Finding(WARNING, "classes", told)
    elif counts:
        listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        yield Finding(OK, "classes", listed)
