"""CIFAR-10-C: made from CIFAR-10, or read from the published files.

Both assign the pictures to the corruptions before anything else, and keep the pictures of the
training and of the test split apart.
"""

from pathlib import Path

import numpy as np
import torch

from fedmirage.common.data.catalogue.derived import Cifar10C
from fedmirage.common.data.derived.corruptions import corrupt
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit, Values, reading
from fedmirage.common.data.holdout import choose_held_out
from fedmirage.common.data.partitions.counts import Indices, split_evenly
from fedmirage.common.errors import DataError
from fedmirage.common.seeds import numpy_generator, torch_generator

SEVERITIES = (1, 2, 3, 4, 5)
TEST_SHARE = 0.1  # of the published pictures, as in FedLGD
BATCH = 500  # pictures that are corrupted together


def make_corrupted(base: Raw, params: Cifar10C, form: PictureForm) -> Raw:
    """Corrupt the pictures of CIFAR-10; with severity=None every picture has one of its own."""

    def change(part: RawSplit, purpose: str) -> RawSplit:
        labels = part.labels.astype(np.int64)
        shares = _divide(labels, params, purpose)
        images = np.empty((sum(map(len, shares)), *_shape(form)), np.uint8)
        columns: list[Indices] = []
        for name, portion in zip(params.about().domains, shares, strict=True):
            generator = torch_generator(params.seed, "corruptions", purpose, name)
            severity = _draw_severities(len(portion), params.severity, generator)
            done = sum(map(len, columns))
            for chosen, level in _batches(severity):
                clean = torch.from_numpy(part.images[portion[chosen]])
                shown = corrupt(clean, name, level, generator).numpy()
                images[done + chosen] = arrange(shown, form)
            columns.append(severity)
        return _join(images, [labels[portion] for portion in shares], columns)

    return base.change(change)


def read_published(params: Cifar10C, labels: Path, *files: Path, form: PictureForm) -> Raw:
    """Read the published files: the same pictures five times, from severity 1 to severity 5."""
    numbers, arrays = _open(labels, files)
    pictures = len(numbers) // len(SEVERITIES)
    once = numbers[:pictures]
    held = choose_held_out(once, TEST_SHARE)
    levels = SEVERITIES if params.severity is None else (params.severity,)
    splits = []
    for mask, purpose in ((~held, "train"), (held, "test")):
        members = np.flatnonzero(mask)
        shares = [members[portion] for portion in _divide(once[members], params, purpose)]
        images = np.empty((len(levels) * sum(map(len, shares)), *_shape(form)), np.uint8)
        labelled: list[Indices] = []
        columns: list[Indices] = []
        for array, portion in zip(arrays, shares, strict=True):
            done = sum(len(column) for column in columns)
            rows = np.concatenate([(level - 1) * pictures + portion for level in levels])
            shown = np.ascontiguousarray(array[rows].transpose(0, 3, 1, 2))
            images[done : done + len(rows)] = arrange(shown, form)
            labelled.append(np.tile(once[portion], len(levels)))
            columns.append(np.repeat(levels, len(portion)))
        splits.append(_join(images, labelled, columns))
    return Raw(splits[0], splits[1])


def _divide(labels: Values, params: Cifar10C, purpose: str) -> list[Indices]:
    """Return the pictures of every corruption, as ascending positions."""
    count = len(params.about().domains)
    if params.overlap:
        return [np.arange(len(labels))] * count
    return split_evenly(labels, count, numpy_generator(params.seed, "corruptions", purpose))


def _draw_severities(count: int, severity: int | None, generator: torch.Generator) -> Indices:
    """Return the severity of every picture; if none is given, each of the five equally often."""
    if severity is not None:
        return np.full(count, severity, np.int64)
    drawn: Indices = (torch.randperm(count, generator=generator) % len(SEVERITIES)).numpy()
    return 1 + drawn


def _batches(severity: Indices) -> list[tuple[Indices, int]]:
    """Return positions that have one severity, at most a batch at a time, and that severity."""
    found = []
    for level in np.unique(severity).tolist():
        members = np.flatnonzero(severity == level)
        pieces = np.array_split(members, -(-len(members) // BATCH))
        found += [(piece, level) for piece in pieces]
    return found


def _join(images: Images, labels: list[Indices], severities: list[Indices]) -> RawSplit:
    domain = np.repeat(np.arange(len(labels)), [len(part) for part in labels])
    columns = {"domain": domain, "severity": np.concatenate(severities)}
    return RawSplit(images, np.concatenate(labels), columns)


def _shape(form: PictureForm) -> tuple[int, int, int]:
    return form.channels or 3, form.size or 32, form.size or 32


def _open(labels: Path, files: tuple[Path, ...]) -> tuple[Indices, list[Images]]:
    """Map the files into memory, and check that they belong together."""
    with reading(labels, "a .npy file of class numbers"):
        numbers = np.load(labels, allow_pickle=False).reshape(-1).astype(np.int64)
    blocks = numbers.reshape(len(SEVERITIES), -1) if len(numbers) % len(SEVERITIES) == 0 else None
    if blocks is None or not (blocks == blocks[0]).all():
        raise DataError(
            f"{labels}: the {len(numbers)} labels are not the same ones for each of five"
            " severities; get the published files again"
        )
    arrays = []
    for file in files:
        with reading(file, "a .npy file of pictures"):
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        if array.dtype != np.uint8 or array.shape != (len(numbers), 32, 32, 3):
            raise DataError(
                f"{file} holds {array.dtype} of {array.shape} instead of bytes of"
                f" {(len(numbers), 32, 32, 3)}; get the published files again"
            )
        arrays.append(array)
    return numbers, arrays
