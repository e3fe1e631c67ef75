"""The sets that need no file: scikit-learn's digits in several forms, and its two tables."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit
from fedmirage.common.data.holdout import choose_held_out
from fedmirage.common.seeds import numpy_generator

TEST_SHARE = 0.2
CELL = 14  # a picture of several digits has 2x2 cells
DIGIT = 12  # side of a digit in its cell; the rest of the cell lets its position vary


def digits(form: PictureForm) -> Raw:
    """Read the digits; a fifth of every class is held out."""
    images, labels = _genuine()
    held = choose_held_out(labels, TEST_SHARE)
    images = arrange(images, form)
    return Raw(RawSplit(images[~held], labels[~held]), RawSplit(images[held], labels[held]))


def digits_multi(per_image: int, train: int, test: int, seed: int, form: PictureForm) -> Raw:
    """Compose pictures of one to `per_image` different digits; each split has digits of its own."""

    def compose(part: RawSplit, name: str) -> RawSplit:
        generator = numpy_generator(seed, "digits-multi", name)
        images, labels = _compose(part, train if name == "train" else test, per_image, generator)
        return RawSplit(arrange(images, form), labels)

    return digits(PictureForm(size=DIGIT, channels=1)).change(compose)


def digits_domains(seed: int, form: PictureForm) -> Raw:
    """Make the digits in five styles.

    They get a margin of an eighth of the side, as wide as MNIST's, so that a warp cuts nothing off.
    """
    # imported here, because nothing else here needs torch
    from fedmirage.common.data.derived.digits import make_domains

    assert form.size is not None  # the parameters of the set always give one
    margin = form.size // 8
    frame = ((0, 0), (0, 0), (margin, margin), (margin, margin))
    bare = digits(PictureForm(form.size - 2 * margin, channels=1))
    framed = bare.change(lambda split, _: replace(split, images=np.pad(split.images, frame)))
    return make_domains(framed, seed, form.channels)


def measurements(name: str, form: PictureForm) -> Raw:
    """Read one of scikit-learn's tables; a fifth of every class is held out.

    Every column is normalised by its mean and standard deviation in the training split.
    """
    # imported here, because the import takes seconds and a cached set does not need it
    from sklearn.datasets import load_breast_cancer, load_wine

    bunch = load_wine() if name == "wine" else load_breast_cancer()
    rows, labels = bunch.data.astype(np.float32), bunch.target.astype(np.int64)
    held = choose_held_out(labels, TEST_SHARE)
    train, test = (RawSplit(rows[part], labels[part]) for part in (~held, held))
    columns = bunch.data[~held]
    scale = tuple(columns.mean(0).tolist()), tuple(columns.std(0).tolist())
    return Raw(train, test, tuple(map(str, bunch.target_names)), scale)


def _genuine() -> tuple[Images, npt.NDArray[np.int64]]:
    # imported here, because the import takes seconds and a cached set does not need it
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)  # 17 shades of grey
    return images[:, None], bunch.target.astype(np.int64)


def _compose(
    part: RawSplit, count: int, per_image: int, generator: np.random.Generator
) -> tuple[Images, npt.NDArray[np.uint8]]:
    images = np.zeros((count, 1, 2 * CELL, 2 * CELL), np.uint8)
    labels = np.zeros((count, 10), np.uint8)
    by_class = [np.flatnonzero(part.labels == digit) for digit in range(10)]
    for picture, label in zip(images[:, 0], labels, strict=True):
        number = int(generator.integers(1, per_image + 1))
        classes = generator.permutation(10)[:number]
        for digit, cell in zip(classes, generator.permutation(4), strict=False):
            offset = generator.integers(0, CELL - DIGIT + 1, 2)
            top, left = np.array(divmod(int(cell), 2)) * CELL + offset
            chosen = part.images[generator.choice(by_class[digit]), 0]
            picture[top : top + DIGIT, left : left + DIGIT] = chosen
        label[classes] = 1
    return images, labels
