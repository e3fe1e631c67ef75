"""Digits in five styles: who gets which picture, what is done to it, and what is the same twice."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedmirage.common.data.derived import digits as styles
from fedmirage.common.data.derived.digits import FONTS, colour_patches, grey_surfaces, render
from fedmirage.common.data.files.formats import embedded
from fedmirage.common.data.files.genuine import IDX_NAMES
from fedmirage.common.data.files.raw import PictureForm
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.counts import split_evenly
from fedmirage.common.data.partitions.named import split
from fedmirage.common.errors import ConfigurationError, DataError
from tests.support.files import labels, pictures, write_idx

NAMES = ("plain", "inverted", "blended", "rendered", "warped")


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for this file: making the set once is enough."""
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path_factory.getbasetemp() / "styles-cache"))


def change(style: str, images: Tensor) -> Tensor:
    return styles._change(style, images, torch.Generator().manual_seed(0))


def test_five_domains_of_equal_size_have_every_class_in_both_splits() -> None:
    made = load("digits-domains")
    assert made.domains == NAMES
    assert made.shape == (3, 16, 16)
    assert (len(made.train), len(made.test)) == (1797, 448)
    for part, size, least in ((made.train, 359, 33), (made.test, 90, 8)):
        for domain in range(5):
            mine = part.columns["domain"] == domain
            assert abs(mine.sum() - size) <= 1
            assert np.bincount(part.labels[mine], minlength=10).min() >= least


def test_every_picture_is_used_once_and_keeps_its_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """With styles that change nothing, the four domains that use pictures show the digits of the
    base set, each exactly as often as it is there, in the split in which it is there."""
    monkeypatch.setattr(styles, "_change", lambda style, images, generator: images)
    base = embedded.digits(PictureForm(size=12, channels=1))
    made = styles.make_domains(base, seed=3, channels=1)
    for ours, theirs in ((made.train, base.train), (made.test, base.test)):
        assert ours is not None
        assert theirs is not None
        used = ours.columns["domain"] != NAMES.index("rendered")
        pairs = [
            sorted((image.tobytes(), int(label)) for image, label in zip(*both, strict=True))
            for both in (
                (ours.images[used], ours.labels[used]),
                (theirs.images, theirs.labels),
            )
        ]
        assert pairs[0] == pairs[1]


def test_no_picture_is_dealt_twice_and_classes_are_dealt_evenly() -> None:
    numbers = np.repeat(np.arange(10), [7, 8, 9, 10, 11, 12, 13, 14, 15, 16])
    hands = split_evenly(numbers, 4, np.random.default_rng(0))
    assert sorted(np.concatenate(hands).tolist()) == list(range(len(numbers)))
    counts = np.stack([np.bincount(numbers[hand], minlength=10) for hand in hands])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp([len(hand) for hand in hands]) <= 1


def test_the_same_seed_gives_the_same_bytes_wherever_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load("digits-domains").fingerprint
    assert load("digits-domains(seed=1)").fingerprint != before
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path))
    torch.manual_seed(5)  # what others draw does not matter
    assert load("digits-domains").fingerprint == before


def test_plain_digits_are_the_genuine_ones_in_a_margin() -> None:
    made = load("digits-domains").train
    plain = made.images[made.columns["domain"] == 0]
    assert (plain[:, 0] == plain[:, 1]).all()
    assert (plain[:, 0] == plain[:, 2]).all()
    genuine = {image.tobytes() for image in load("digits(size=12)").train.images}
    assert {image[0, 2:14, 2:14].tobytes() for image in plain} <= genuine
    assert plain[:, :, :2].max() == 0


def test_inverted_digits_are_dark_on_a_bright_texture() -> None:
    generator = torch.Generator().manual_seed(0)
    texture = grey_surfaces(6, 16, generator)
    assert 0.4 <= texture.min() < texture.max() <= 1
    nothing, everything = torch.zeros(6, 1, 16, 16).double(), torch.ones(6, 1, 16, 16).double()
    assert torch.equal(change("inverted", nothing), texture.expand(-1, 3, -1, -1))
    assert change("inverted", everything).max() == 0


def test_blended_digits_are_the_difference_of_patch_and_digit() -> None:
    """Pixel by pixel and colour by colour, as the authors of MNIST-M blend."""
    patches = colour_patches(3, 8, torch.Generator().manual_seed(0))
    assert patches.min() >= 0
    assert patches.max() <= 1
    grey = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1)).double()
    blended = change("blended", grey)
    for number in range(3):
        for colour in range(3):
            for row in range(8):
                for column in range(8):
                    patch = patches[number, colour, row, column].item()
                    expected = abs(patch - grey[number, 0, row, column].item())
                    assert blended[number, colour, row, column].item() == expected


def test_patches_are_colourful() -> None:
    patches = colour_patches(50, 16, torch.Generator().manual_seed(0))
    spread = patches.amax(dim=1) - patches.amin(dim=1)  # of the three colours of a pixel
    assert spread.mean() > 0.3


def test_warped_digits_move_and_blur_but_are_not_wiped_out() -> None:
    grey = torch.zeros(20, 1, 16, 16).double()
    grey[:, :, 4:12, 7:9] = 1
    warped = change("warped", grey)
    assert (warped - grey).abs().mean(dim=(1, 2, 3)).min() > 0.01
    ink = warped[:, 0].sum(dim=(1, 2)) / grey[:, 0].sum(dim=(1, 2))
    assert 0.5 < ink.min() <= ink.max() < 2
    assert not torch.equal(warped[0], warped[1])


def test_rendered_digits_show_their_label() -> None:
    """The same draws with another label give another shape in the same colours and place; the same
    draws with the same label give the same picture."""
    count = 30
    shown = [
        render(torch.full((count,), digit), 28, torch.Generator().manual_seed(0))
        for digit in range(10)
    ]
    again = render(torch.full((count,), 4), 28, torch.Generator().manual_seed(0))
    assert torch.equal(shown[4], again)
    for digit in range(10):
        assert 0 <= shown[digit].min() < shown[digit].max() <= 1
        for other in range(digit):
            difference = (shown[digit] - shown[other]).abs().amax(dim=(1, 2, 3))
            assert difference.min() > 0.3  # the least contrast of digit and background
    corners = torch.stack(shown)[:, :, :, 0, 0]
    assert (corners == corners[0]).float().mean() > 0.9


def test_fonts_differ_and_labels_are_balanced() -> None:
    from fedmirage.common.data.derived.digits import _rasters

    shapes = _rasters(28).flatten(2)  # (fonts, 10, pixels)
    assert shapes.shape[:2] == (len(FONTS), 10)
    for group in (shapes, shapes.transpose(0, 1)):
        distances = torch.cdist(group, group) + torch.eye(group.shape[1]) * 100
        assert distances.min() > 1
    made = load("digits-domains").train
    counts = np.bincount(made.labels[made.columns["domain"] == NAMES.index("rendered")])
    assert np.ptp(counts) <= 1


def test_one_style_per_client_is_the_partition_of_domains() -> None:
    made = load("digits-domains")
    for line in ("domains", "natural(by='domain')"):
        parts = split(line, made.train, 10, 5, seed=0)
        for domain, part in enumerate(parts):
            assert set(made.train.columns["domain"][part].tolist()) == {domain}
    with pytest.raises(ConfigurationError, match=r"5 domains times shards=1 are 5 clients"):
        split("domains", made.train, 10, 4, seed=0)


def test_mnist_is_used_where_it_is(data: Path) -> None:
    images = pictures(40, 28, 28)
    write_idx(data / "mnist", images, labels(40), IDX_NAMES)
    made = load("mnist-domains", data)
    assert made.shape == (3, 28, 28)
    assert made.domains == NAMES
    assert len(made.train) == 50
    plain = made.train.columns["domain"] == 0
    genuine = {(image.tobytes(), label) for image, label in zip(images, labels(40), strict=True)}
    shown = zip(made.train.images[plain][:, 1], made.train.labels[plain], strict=True)
    assert {(image.tobytes(), label) for image, label in shown} <= genuine
    assert load("mnist-domains(size=16, channels=1)", data).shape == (1, 16, 16)


def test_a_missing_mnist_is_asked_for_by_its_name(data: Path) -> None:
    with pytest.raises(
        DataError, match=r"mnist \(needed for mnist-domains\) was not found"
    ) as told:
        load("mnist-domains", data)
    assert f"{data / 'mnist'}," in str(told.value)
    assert "--download to fetch ylecun/mnist" in str(told.value)
