"""The data folder, the folders of one set in it, and what was found there."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from fedmirage.common.data.catalogue.params import DatasetParams, Emnist, Hub
from fedmirage.common.data.files.archives import require_plain_file
from fedmirage.common.data.files.raw import PictureForm, Raw
from fedmirage.common.errors import DataError

GIVEN = "given"  # in the data folder: files with what Python programs gave
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")


@dataclass(frozen=True)
class Source:
    """Files that were found, and how to read them."""

    origin: str  # for messages
    files: tuple[Path, ...]  # when one of them changes, the cache is out of date
    read: Callable[[PictureForm], Raw]


def lazily(reader: str, *arguments: Any, **options: Any) -> Callable[[PictureForm], Raw]:
    """Return what calls a reader, such as "files.formats.npz.read_npz", with these arguments.

    Its module is imported only then, because readers load much, and a cached set needs none.
    """
    module, _, function = reader.rpartition(".")

    def read(form: PictureForm) -> Raw:
        called = getattr(import_module(f"fedmirage.common.data.{module}"), function)
        raw: Raw = called(*arguments, form=form, **options)
        return raw

    return read


def data_folder(data_dir: str | Path | None) -> Path:
    """Return the given folder, else FEDMIRAGE_DATA, else a folder in the home directory."""
    return Path(
        data_dir or os.environ.get("FEDMIRAGE_DATA") or "~/.cache/fedmirage/data"
    ).expanduser()


def find_own(subject: str, path: str, data: Path, key: str = "path") -> Path:
    """Find a file or folder of the user's; `subject` begins the sentence if it is not there."""
    given = Path(path).expanduser()
    candidates = [data / given, given.absolute()]  # an absolute path stays what it is
    found = next((candidate for candidate in candidates if candidate.exists()), None)
    is_given = given.parts[:1] == (GIVEN,)
    if found is None and is_given:
        raise DataError(
            f"{subject}({key}={path!r}): what a Python program gave is no longer in {data}; give it"
            " again, as in fedmirage.run(resume=..., dataset=(images, labels))"
        )
    if found is None:
        tried = list(dict.fromkeys(map(str, candidates)))
        missing = f"neither {' nor '.join(tried)} exists" if tried[1:] else f"no {tried[0]} exists"
        raise DataError(
            f"{subject}({key}={path!r}): {missing}; write {key}= as it is on this machine"
        )
    if is_given:
        note_use(found)
    return found


def note_use(path: Path) -> None:
    """Set the time of the last access, which few file systems keep by themselves."""
    with suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def homes(params: DatasetParams, data: Path) -> list[Path]:
    """Return the folders that belong to a published set; a download goes to the first one."""
    if isinstance(params, Emnist):  # its splits are sets of their own
        return [
            data / "emnist" / params.split,
            data / "EMNIST" / params.split,
            data / f"emnist-{params.split}",
        ]
    if isinstance(params, Hub):
        return [data / "hub" / "--".join([*params.path.split("/"), *params.subset.split()])]
    return [data / name for name in (params.name, *params.card.folders)]


def is_picture(name: str) -> bool:
    """Recognise a picture by its ending; hidden files do not count."""
    return name.lower().endswith(ENDINGS) and not PurePosixPath(name).name.startswith(".")


def list_pictures(root: Path) -> list[Path]:
    """List the pictures in the class folders below `root`, in the order of the samples."""
    found = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".")]
        if folder != str(root):
            pictures = (Path(folder, name) for name in names if is_picture(name))
            found += [require_plain_file(path, root) for path in pictures]
    return sorted(found)
