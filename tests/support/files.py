"""Small files in the genuine formats of the published sets."""

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def pictures(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Random bytes (count, *shape)."""
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def labels(count: int, classes: int = 10) -> np.ndarray:
    """0, 1, 2, ..., repeated."""
    return np.arange(count) % classes


def png(pixels: np.ndarray) -> bytes:
    """(height, width) or (height, width, 3) as a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def idx(values: np.ndarray, compress: bool = False) -> bytes:
    """The IDX format: zeros, the type, the number of dimensions, their lengths, the bytes.

    The type is that of unsigned bytes, and lengths are big-endian.
    """
    data = (
        struct.pack(">HBB", 0, 8, values.ndim)
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.astype(np.uint8).tobytes()
    )
    return gzip.compress(data) if compress else data


def write_idx(
    folder: Path,
    images: np.ndarray,
    numbers: np.ndarray,
    names: Sequence[str],
    compress: bool = False,
) -> None:
    """Write the same samples as training and test split, under the four published names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in zip(names, (images, numbers, images, numbers), strict=True):
        (folder / (name + ".gz" * compress)).write_bytes(idx(values, compress))


def write_parquet(
    path: Path,
    images: np.ndarray,
    columns: Mapping[str, Any],
    image: str = "image",
    features: dict[str, Any] | None = None,
) -> None:
    """Write pictures as PNG in the hub's format.

    Each is a struct of bytes and path; the schema's metadata describes the features.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"bytes": png(pixels), "path": None} for pixels in images]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {
            image: pa.array(cells, kind),
            **{name: pa.array(values) for name, values in columns.items()},
        }
    )
    if features:
        table = table.replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})}
        )
    pq.write_table(table, path)


def python2_pickle(content: Mapping[bytes, Any]) -> bytes:
    """Pickle a dict of byte arrays and lists as Python 2 and its numpy did (protocol 2)."""
    body = b"".join(_text(key) + _value(value) + b"s" for key, value in content.items())
    return b"\x80\x02}" + body + b"."


def _text(value: bytes) -> bytes:
    return b"T" + struct.pack("<i", len(value)) + value  # a Python 2 str


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _value(value: Any) -> bytes:
    if isinstance(value, list):
        return (
            b"]("
            + b"".join(_text(item) if isinstance(item, bytes) else _number(item) for item in value)
            + b"e"
        )
    shape = b"(" + b"".join(map(_number, value.shape)) + b"t"
    dtype = (
        b"cnumpy\ndtype\n("
        + _text(b"u1")
        + b"K\x00K\x01tR(K\x03"
        + _text(b"|")
        + b"NNN"
        + _number(-1)
        + _number(-1)
        + b"K\x00tb"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + _text(b"b") + b"tR"
    return array + b"(K\x01" + shape + dtype + b"\x89" + _text(value.tobytes()) + b"tb"


def write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a gzipped tar file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tape:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the same as single files."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
