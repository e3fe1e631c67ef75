"""IDX, the format of MNIST and its relatives, gzipped or not."""

import gzip
import io
import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedmirage.common.data.files.archives import check_size, read_content
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit, Values, reading
from fedmirage.common.errors import DataError

UNSIGNED_BYTE = 0x08


class IdxFiles(NamedTuple):
    """The four files of a set: paths, or the contents of files in an archive."""

    train_images: Path | bytes
    train_labels: Path | bytes
    test_images: Path | bytes
    test_labels: Path | bytes


def read_idx(
    files: IdxFiles,
    names: tuple[str, ...],
    form: PictureForm,
    transposed: bool = False,
    first_label: int = 0,
) -> Raw:
    """Read both splits; `transposed` exchanges rows and columns, `first_label` becomes class 0."""
    arrays = [
        parse(read_content(content), name) for content, name in zip(files, names, strict=True)
    ]
    splits = []
    for images, labels, name in (
        (arrays[0], arrays[1], names[0]),
        (arrays[2], arrays[3], names[2]),
    ):
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
