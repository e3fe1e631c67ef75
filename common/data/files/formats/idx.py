"""IDX, the format of MNIST and its relatives, gzipped or not."""

import gzip
import io
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedmirage.common.data.files.archives import check_size, read_content, read_entries
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit, Values, reading
from fedmirage.common.errors import DataError

UNSIGNED_BYTE = 0x08


def read_idx(
    contents: Mapping[str, Path | bytes], transposed: bool, first_label: int, form: PictureForm
) -> Raw:
    """Read the pictures and labels of training, then those of the test, each a named file.

    `transposed` exchanges rows and columns, and `first_label` becomes class 0.
    """
    arrays = [(name, parse(read_content(content), name)) for name, content in contents.items()]
    splits = []
    for (name, images), (_, labels) in (arrays[:2], arrays[2:]):
        if images.ndim != 3 or labels.ndim != 1:
            raise DataError(
                f"{name} and its labels have {images.ndim} and {labels.ndim} dimensions instead of"
                " 3 and 1; get them again"
            )
        upright: Images = np.ascontiguousarray(images.transpose(0, 2, 1)) if transposed else images
        splits.append(
            RawSplit(arrange(upright[:, None], form), labels.astype(np.int64) - first_label)
        )
    return Raw(splits[0], splits[1])


def read_idx_archive(
    archive: Path, names: tuple[str, ...], transposed: bool, first_label: int, form: PictureForm
) -> Raw:
    """Read the same from an archive."""
    found = {
        Path(name).name.removesuffix(".gz"): content
        for name, content in read_entries(archive, lambda name: any(part in name for part in names))
    }
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            f"{archive} is not complete: {', '.join(missing)} is not in it; get it again"
        )
    contents = {f"{archive}: {name}": found[name] for name in names}
    return read_idx(contents, transposed, first_label, form)


def parse(data: bytes, name: str) -> Values:
    """Parse an IDX file: two zero bytes, type, number of dimensions, their lengths, the content."""
    with reading(name, "an IDX file"):
        packed = data[:2] == b"\x1f\x8b"
        stream = gzip.GzipFile(fileobj=io.BytesIO(data)) if packed else io.BytesIO(data)
        head = stream.read(4)
        if len(head) < 4:
            raise DataError(f"{name} is empty; get it again")
        zeros, kind, dimensions = struct.unpack(">HBB", head)
        if zeros != 0 or kind != UNSIGNED_BYTE:
            raise DataError(
                f"{name} is not an IDX file of bytes (it begins with {head.hex()}); get it again"
            )
        shape = struct.unpack(f">{dimensions}I", stream.read(4 * dimensions))
        size = math.prod(shape)
        check_size(name, size)
        # No more is unpacked than was promised: a few bytes may stand for any number of zeros.
        content = np.frombuffer(stream.read(size + 1), np.uint8)
        if content.size != size:
            wrong = "it is cut off" if content.size < size else "it has more"
            raise DataError(
                f"{name} promises {'x'.join(map(str, shape))} bytes: {wrong}; get it again"
            )
        return content.reshape(shape)
