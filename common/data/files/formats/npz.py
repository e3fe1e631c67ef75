"""Arrays of your own in one .npz file."""

from pathlib import Path

import numpy as np

from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import (
    Images,
    PictureForm,
    Raw,
    RawSplit,
    Rows,
    Values,
    list_texts,
    number_values,
    reading,
)
from fedmirage.common.errors import DataError

# What the arrays may be called: this project's and MedMNIST's names, Keras's, short ones.
TRAIN = (("train_images", "train_labels"), ("x_train", "y_train"), ("images", "labels"), ("x", "y"))
TEST = (("test_images", "test_labels"), ("x_test", "y_test"))


def read_npz(path: Path, columns: tuple[str, ...], tensors: bool, form: PictureForm) -> Raw:
    """Read both splits; without test arrays there is no test split.

    `tensors` says that the inputs are no pictures.
    """
    with (
        reading(path, "a .npz file without pickled objects"),
        np.load(path, allow_pickle=False) as file,
    ):
        arrays: dict[str, Values] = {name: file[name] for name in file.files}
    train = next((pair for pair in TRAIN if set(pair) <= set(arrays)), None)
    test = next((pair for pair in TEST if set(pair) <= set(arrays)), None)
    if train is None:
        wanted = ", ".join(" and ".join(pair) for pair in TRAIN)
        raise DataError(
            f"{path} has the arrays {', '.join(arrays) or 'none'}; it needs one of these pairs:"
            f" {wanted}"
        )
    pairs = [(train, "train")] + ([(test, "test")] if test else [])
    found_columns = {
        name: [_column(path, arrays, name, split) for _, split in pairs] for name in columns
    }
    extra = {name: number_values(parts, name) for name, parts in found_columns.items()}
    splits = []
    for part, ((images, labels), _) in enumerate(pairs):
        where = f"{path}: {images}"
        found: Values = (
            to_floats(where, arrays[images])
            if tensors
            else arrange(to_bytes(where, arrays[images]), form)
        )
        values = {name: extra[name][part] for name in columns}
        splits.append(RawSplit(found, _flat(arrays[labels]), values))
    names = tuple(map(str, arrays.get("class_names", ())))
    told = {name: list_texts(parts) for name, parts in found_columns.items()}
    return Raw(splits[0], splits[1] if test else None, names, column_names=told)


def to_bytes(where: str, images: Values) -> Images:
    """Convert arrays to bytes with channels first; `where` begins the sentence if that fails.

    They may be (samples, height, width), or have channels last or first (last where both fit), and
    hold bytes or floats in [0, 1].
    """
    if images.dtype.kind == "f":
        if not np.isfinite(images).all():
            raise DataError(
                f"{where} holds NaN or infinite values; correct them and scale them to [0, 1]"
            )
        if images.size and not (images.min() >= 0 and images.max() <= 1):
            raise DataError(
                f"{where} holds floats outside [0, 1]; scale them to [0, 1], save bytes, or write"
                " inputs='tensors' if they are no pictures"
            )
        images = np.rint(images * 255).astype(np.uint8)
    if images.dtype != np.uint8:
        raise DataError(
            f'{where} holds {images.dtype}; save bytes from 0 to 255 (.astype("uint8")) or floats'
            " in [0, 1]"
        )
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    raise DataError(
        f"{where} has the shape {images.shape}; it must be (samples, height, width) with 1 or 3"
        " channels behind or before; write inputs='tensors' if they are no pictures"
    )


def to_floats(where: str, inputs: Values) -> Rows:
    """Convert numbers of any fixed shape to float32; `where` begins the sentence if that fails."""
    if inputs.dtype.kind not in "biuf":
        raise DataError(f"{where} holds {inputs.dtype}; save numbers, for example as float32")
    if inputs.ndim < 2 or 0 in inputs.shape[1:]:
        raise DataError(
            f"{where} has the shape {inputs.shape}; it must be (samples, ...), with at least one"
            " number per sample"
        )
    found = inputs.astype(np.float32)
    if wrong := int((~np.isfinite(found)).reshape(len(found), -1).any(1).sum()):
        raise DataError(
            f"{where}: {wrong} of the {len(found)} inputs hold NaN, infinite or too large values;"
            " correct or drop them"
        )
    return found


def _flat(labels: Values) -> Values:
    """Drop the second axis if it has length 1: a single column holds class numbers."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _column(path: Path, arrays: dict[str, Values], name: str, split: str) -> Values:
    for key in (f"{split}_{name}", f"{name}_{split}", *([name] if split == "train" else [])):
        if key in arrays:
            return _flat(arrays[key])
    raise DataError(
        f"{path} has no array {split}_{name}, only {', '.join(arrays)}; add it or remove {name!r}"
        " from columns="
    )
