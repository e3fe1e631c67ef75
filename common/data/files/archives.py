"""Reads folders, zip and tar files in one way, and CIFAR's pickles without running any code.

Files may come from anywhere: nothing is unpacked to disk, nothing outside a folder is read, and an
entry that would fill the memory is refused before it is read.
"""

import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedmirage.common.data.files.raw import reading
from fedmirage.common.errors import DataError

LARGEST_ENTRY = 2**30  # bytes of one file in an archive


def read_entries(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes | Path]]:
    """Yield name and content of the wanted files in a folder (as paths) or an archive (as bytes).

    Names have slashes on every system. Nothing is unpacked to disk.
    """
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if wanted(inner.relative_to(path).as_posix()) and not inner.is_dir():
                yield inner.relative_to(path).as_posix(), require_plain_file(inner, path)
        return
    with reading(path, "a complete archive"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in sorted(archive.namelist()):
                    if wanted(name) and not name.endswith("/"):
                        check_size(f"{path}: {name}", archive.getinfo(name).file_size)
                        yield name, archive.read(name)
            return
        with tarfile.open(path) as tar:
            for member in tar:
                content = (
                    tar.extractfile(member) if member.isfile() and wanted(member.name) else None
                )
                if content is not None:
                    check_size(f"{path}: {member.name}", member.size)
                    yield member.name, content.read()


def require_plain_file(path: Path, root: Path) -> Path:
    """Refuse what is no ordinary file, and links that lead out of the folder of the set."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{path} is a link that leads out of {root}; copy the file there")
    if not path.is_file():
        raise DataError(f"{path} is not an ordinary file; remove it")
    return path


def check_size(name: str, size: int, largest: int | None = None) -> None:
    """Refuse an entry that no data set needs."""
    if size > (largest or LARGEST_ENTRY):
        raise DataError(f"{name} would take {size / 2**30:.1f} GiB; get the genuine file")


def read_content(content: bytes | Path) -> bytes:
    """Return the bytes of an entry."""
    return content.read_bytes() if isinstance(content, Path) else content


def read_text(content: bytes | Path, name: str) -> str:
    """Return the text of an entry."""
    with reading(name, "a text in UTF-8"):
        return read_content(content).decode()


class PickledType:
    """Stands for a numpy type while a pickle is read; it keeps the letters and nothing else."""

    def __init__(self, letters: str | bytes = "", *_: Any) -> None:
        self.letters = letters.decode("ascii") if isinstance(letters, bytes) else str(letters)

    def __setstate__(self, state: Any) -> None:
        """Byte order and fields are of no interest: the arrays of CIFAR hold bytes."""


class PickledArray:
    """Stands for an array while a pickle is read.

    A real array would interpret whatever the pickle says about its memory, and crash over it.
    """

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        """Keep (version, shape, type, order, bytes)."""
        self.state = tuple(state)

    def to_array(self) -> np.ndarray[Any, Any]:
        """Make the array, if it is one of bytes and complete."""
        _, shape, kind, column_first, content = self.state
        if kind.letters != "u1" or not isinstance(content, bytes):
            raise DataError(
                f"holds an array of {kind.letters!r} instead of bytes; get the genuine file"
            )
        flat = np.frombuffer(content, np.uint8)
        return flat.reshape([int(size) for size in shape], order="F" if column_first else "C")


class ArrayUnpickler(pickle.Unpickler):
    """Reads arrays of bytes and plain containers only: an ordinary one can run any program."""

    def find_class(self, module: str, name: str) -> Any:
        """Resolve a name; it is called for everything that is not a number, text, list or dict."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _reconstruct
        if (module, name) == ("numpy", "ndarray"):
            return PickledArray
        if (module, name) == ("numpy", "dtype"):
            return PickledType
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        raise DataError(
            f"asks for {module}.{name}, which no array needs, so it was not opened; get the genuine"
            " file"
        )


def unpickle(data: bytes, name: str) -> dict[str, Any]:
    """Read a pickled dict of arrays and lists, as Python 2 wrote them."""
    with reading(name, "a pickled dict of arrays"):
        try:
            content = ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
            return {
                key.decode() if isinstance(key, bytes) else str(key): (
                    value.to_array() if isinstance(value, PickledArray) else value
                )
                for key, value in content.items()
            }
        except DataError as error:
            raise DataError(f"{name} {error}") from None


def _reconstruct(kind: Any, shape: Any, code: Any) -> PickledArray:
    """Stand for numpy's own function, whose array gets its state afterwards."""
    return PickledArray()


def _latin1(text: str, encoding: str | bytes) -> bytes:
    """Turn text back into bytes: in an old pickle, Python 3 writes bytes as text."""
    return text.encode("latin1")
