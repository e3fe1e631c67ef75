"""Augmentation: one gather equals a loop over samples in every memory format, and is repeatable."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fedmirage.common.learning.augment import (
    AUGMENTATIONS,
    Augmentation,
    AugmentationDraw,
    apply,
    augment,
    cut_out,
    draw,
    mean_bytes,
)

SHAPES = [(7, 1, 28, 28), (5, 3, 32, 32), (4, 2, 9, 14), (1, 3, 8, 8)]


def pictures(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randint(
        1, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


def by_loop(
    images: Tensor, augmentation: Augmentation, drawn: AugmentationDraw, fill: Tensor | None
) -> Tensor:
    """Sample by sample: pad, crop, mirror, fill the square."""
    result = []
    pad, half = augmentation.pad, augmentation.cutout // 2
    for index, image in enumerate(images.numpy()):
        _, height, width = image.shape
        top, left = int(drawn.top[index]), int(drawn.left[index])
        crop = np.pad(image, ((0, 0), (pad, pad), (pad, pad)))[
            :, top : top + height, left : left + width
        ].copy()
        if drawn.flip[index]:
            crop = crop[:, :, ::-1].copy()
        if augmentation.cutout:
            row, column = (int(value) for value in drawn.hole[:, index])
            colour = np.zeros(len(crop), np.uint8) if fill is None else fill.numpy()
            crop[:, max(0, row - half) : row + half, max(0, column - half) : column + half] = (
                colour[:, None, None]
            )
        result.append(torch.from_numpy(crop))
    return torch.stack(result)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_equals_a_loop_over_samples(
    name: str, shape: tuple[int, ...], memory_format: torch.memory_format
) -> None:
    augmentation = AUGMENTATIONS[name]
    images = pictures(shape).contiguous(memory_format=memory_format)
    for fill in (None, torch.tensor([9, 130, 255][: shape[1]], dtype=torch.uint8)):
        drawn = draw(augmentation, shape[0], *shape[2:], torch.Generator().manual_seed(3))
        result = apply(images, augmentation, drawn, fill)
        assert torch.equal(result, by_loop(images, augmentation, drawn, fill))
        assert torch.equal(
            augment(images, augmentation, torch.Generator().manual_seed(3), fill), result
        )
        assert result.dtype == torch.uint8
        assert result.is_contiguous(memory_format=memory_format)


def test_none_gives_the_images_themselves_and_draws_nothing() -> None:
    images, generator = pictures((2, 1, 8, 8)), torch.Generator().manual_seed(0)
    state = generator.get_state()
    assert augment(images, AUGMENTATIONS["none"], generator) is images
    assert torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("name", [name for name in AUGMENTATIONS if name != "none"])
def test_randomness_is_the_generators_and_per_sample(name: str) -> None:
    images = pictures((1, 1, 28, 28)).expand(64, 1, 28, 28)
    kept, ambient = images.clone(), torch.get_rng_state()
    first = augment(images, AUGMENTATIONS[name], torch.Generator().manual_seed(1))
    assert torch.equal(
        first, augment(images, AUGMENTATIONS[name], torch.Generator().manual_seed(1))
    )
    assert not torch.equal(
        first, augment(images, AUGMENTATIONS[name], torch.Generator().manual_seed(2))
    )
    assert len(torch.unique(first.flatten(1), dim=0)) > 1
    assert torch.equal(images, kept)
    assert torch.equal(torch.get_rng_state(), ambient)


def test_all_offsets_and_both_directions_are_drawn_about_equally_often() -> None:
    drawn = draw(
        AUGMENTATIONS["crop-flip-cutout"], 20_000, 28, 32, torch.Generator().manual_seed(0)
    )
    for offsets in (drawn.top, drawn.left):
        counts = torch.bincount(offsets, minlength=9)
        assert len(counts) == 9
        assert counts.min() > 2000
    assert abs(drawn.flip.double().mean() - 0.5) < 0.02
    assert (drawn.hole[0].min(), drawn.hole[0].max(), drawn.hole[1].min(), drawn.hole[1].max()) == (
        0,
        27,
        0,
        31,
    )


def test_a_middle_crop_changes_nothing_and_a_corner_crop_brings_in_black() -> None:
    images, four, no = pictures((1, 1, 8, 8)), torch.tensor([4]), torch.tensor([False])
    hole = torch.zeros(2, 1, dtype=torch.int64)
    crop = AUGMENTATIONS["crop"]
    assert torch.equal(apply(images, crop, AugmentationDraw(four, four, no, hole)), images)
    corner = apply(images, crop, AugmentationDraw(0 * four, 0 * four, no, hole))
    assert corner[..., :4, :].sum() == corner[..., :4].sum() == 0
    assert torch.equal(corner[..., 4:, 4:], images[..., :4, :4])


def test_a_cutout_is_clipped_at_the_border() -> None:
    images = torch.ones(3, 1, 32, 32, dtype=torch.uint8)
    holes = torch.tensor([[0, 16, 31], [0, 16, 31]])
    assert (cut_out(images, 16, holes) == 0).sum((1, 2, 3)).tolist() == [8 * 8, 16 * 16, 9 * 9]


def test_mean_bytes() -> None:
    assert mean_bytes((0.0, 0.5071, 1.0)).tolist() == [0, 129, 255]
