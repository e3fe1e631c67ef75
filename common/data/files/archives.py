"""Reads folders, zip and tar files in one way, and CIFAR's pickles without running any code."""

import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from common.data.files.raw import reading
from common.errors import DataError


def read_entries(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes | Path]]:
    """Yield name and content of the wanted files in a folder (as paths) or an archive (as bytes).

    Names have slashes on every system. Nothing is unpacked to disk.
    """
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if wanted(inner.relative_to(path).as_posix()) and inner.is_file():
                yield inner.relative_to(path).as_posix(), inner
        return
    with reading(path, "a complete archive"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in sorted(archive.namelist()):
                    if wanted(name) and not name.endswith("/"):
                        yield name, archive.read(name)
            return
        with tarfile.open(path) as tar:
            for member in tar:
                content = (
                    tar.extractfile(member) if member.isfile() and wanted(member.name) else None
                )
                if content is not None:
                    yield member.name, content.read()


def read_content(content: bytes | Path) -> bytes:
    """Return the bytes of an entry."""
    return content.read_bytes() if isinstance(content, Path) else content


class ArrayUnpickler(pickle.Unpickler):
    """Reads numpy arrays and plain containers only: an ordinary unpickler can run any program."""

    def find_class(self, module: str, name: str) -> Any:
        """Resolve a name; it is called for everything that is not a number, text, list or dict."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _empty_array
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
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
        except DataError as error:
            raise DataError(f"{name} {error}") from None
        return {
            key.decode() if isinstance(key, bytes) else str(key): value
            for key, value in content.items()
        }


def _empty_array(kind: type, shape: tuple[int, ...], code: bytes) -> np.ndarray[Any, Any]:
    """Do what numpy's own function does for an array whose state follows."""
    if kind is not np.ndarray:
        raise DataError(
            f"asks for an array of kind {kind!r}, so it was not opened; get the genuine file"
        )
    return np.ndarray((0,), np.dtype("uint8"))


def _latin1(text: str, encoding: str | bytes) -> bytes:
    """Turn text back into bytes: in an old pickle, Python 3 writes bytes as text."""
    return text.encode("latin1")
