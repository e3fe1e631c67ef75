"""DiffAugment: every operation against a plain reference, its gradient against finite differences,
its randomness."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from fedmirage.common.learning import diffaugment
from fedmirage.common.learning.diffaugment import (
    OPERATIONS,
    Draw,
    apply,
    diff_augment,
    draw,
    draw_once,
)


def images(
    batch: int = 5,
    channels: int = 3,
    height: int = 16,
    width: int = 8,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    return torch.randn(
        batch, channels, height, width, generator=torch.Generator().manual_seed(0), dtype=dtype
    )


def uniform(batch: int = 5) -> Tensor:
    return torch.rand(3, batch, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def close(found: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-10)


def test_color_is_brightness_then_saturation_then_contrast() -> None:
    expected = []
    for picture, (b, s, c) in zip(images().numpy(), uniform().numpy().T, strict=True):
        brighter = picture + (b - 0.5)
        saturated = (brighter - brighter.mean(0)) * 2 * s + brighter.mean(0)
        expected.append((saturated - saturated.mean()) * (c + 0.5) + saturated.mean())
    close(diffaugment.color(images(), uniform()), np.stack(expected))


def test_saturation_does_nothing_to_one_channel() -> None:
    one, other = uniform(), uniform()
    other[1] = 1 - other[1]
    assert torch.allclose(
        diffaugment.color(images(channels=1), one), diffaugment.color(images(channels=1), other)
    )


def test_crop_shifts_by_whole_pixels_and_fills_with_zero() -> None:
    """16 rows shift by -2 to 2, 8 columns by -1 to 1; the five and three shifts are equally likely
    parts of [0, 1)."""
    numbers = torch.tensor(
        [[0.0, 0.21, 0.5, 0.61, 0.999], [0.0, 0.4, 0.5, 0.7, 0.999], [0.0] * 5], dtype=torch.float64
    )
    shifts = [(-2, -1), (-1, 0), (0, 0), (1, 1), (2, 1)]  # of the window
    expected = np.zeros(images().shape)
    for index, (picture, (down, right)) in enumerate(zip(images().numpy(), shifts, strict=True)):
        for row in range(16):
            for column in range(8):
                if 0 <= row + down < 16 and 0 <= column + right < 8:
                    expected[index, :, row, column] = picture[:, row + down, column + right]
    close(diffaugment.crop(images(), numbers), expected)


def test_shifts_are_at_most_an_eighth_rounded() -> None:
    """28 pixels: 3.5, rounded up to 4, as for 32."""
    for side in (28, 32):
        white = torch.ones(200, 1, side, side)
        lost = (
            (
                diffaugment.crop(
                    white, torch.rand(3, 200, generator=torch.Generator().manual_seed(0))
                )
                == 0
            )
            .all(dim=3)
            .sum(dim=2)
        )
        assert int(lost.max()) == 4


def test_cutout_is_half_the_side_and_clipped_at_the_border() -> None:
    """Sides 16 and 8: holes of 8 and 4, whose centres lie at 0 .. 16 and 0 .. 8; rows centre - 4 ..
    centre + 3."""
    numbers = torch.tensor(
        [[0.0, 0.5, 0.999, 0.3, 0.3], [0.0, 0.5, 0.999, 0.99, 0.0], [0.0] * 5], dtype=torch.float64
    )
    centres = [(0, 0), (8, 4), (16, 8), (5, 8), (5, 0)]
    expected = images().numpy().copy()
    for index, (row, column) in enumerate(centres):
        expected[index, :, max(0, row - 4) : row + 4, max(0, column - 2) : column + 2] = 0
    close(diffaugment.cutout(images(), numbers), expected)


def test_flip_every_second() -> None:
    numbers = torch.tensor([[0.0, 0.49, 0.5, 0.9, 0.1]] * 3, dtype=torch.float64)
    expected = images().numpy().copy()
    for index in (0, 1, 4):
        expected[index] = expected[index, :, :, ::-1]
    close(diffaugment.flip(images(), numbers), expected)


def sampled(picture: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Bilinear look-up at matrix @ (x, y), both in pixels from the centre; zero outside."""
    height, width = picture.shape[1:]
    result = np.zeros_like(picture)
    for row in range(height):
        for column in range(width):
            x, y = matrix @ np.array([column - (width - 1) / 2, row - (height - 1) / 2])
            across, down = x + (width - 1) / 2, y + (height - 1) / 2
            for r in (math.floor(down), math.floor(down) + 1):
                for c in (math.floor(across), math.floor(across) + 1):
                    if 0 <= r < height and 0 <= c < width:
                        result[:, row, column] += (
                            (1 - abs(down - r)) * (1 - abs(across - c)) * picture[:, r, c]
                        )
    return result


def test_scale_has_two_factors() -> None:
    factors = uniform().numpy()[:2] * (1.2 - 1 / 1.2) + 1 / 1.2
    expected = [
        sampled(picture, np.diag(pair))
        for picture, pair in zip(images().numpy(), factors.T, strict=True)
    ]
    close(diffaugment.scale(images(), uniform()), np.stack(expected))


def test_rotate_by_up_to_fifteen_degrees() -> None:
    expected = []
    for picture, number in zip(images().numpy(), uniform().numpy()[0], strict=True):
        angle = math.radians((2 * number - 1) * 15)
        expected.append(
            sampled(
                picture,
                np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]),
            )
        )
    close(diffaugment.rotate(images(), uniform()), np.stack(expected))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_gradient_passes_through(operation: str) -> None:
    small = images(2, 2, 4, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda value: apply(value, Draw(operation, uniform(2))), (small,)
    )


def test_one_operation_a_call_all_six_equally_often() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = [draw(3, generator) for _ in range(1200)]
    counts = Counter(one.operation for one in drawn)
    assert set(counts) == set(OPERATIONS)
    assert min(counts.values()) > 150
    assert drawn[0].uniform.shape == (3, 3)
    assert len(set(drawn[0].uniform[0].tolist())) == 3  # parameters are per sample


def test_the_generator_alone_decides() -> None:
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed + len(results))
        generator = torch.Generator().manual_seed(seed)
        results.append(
            torch.stack([diff_augment(images(dtype=torch.float32), generator) for _ in range(8)])
        )
    assert results[0].numpy().tobytes() == results[1].numpy().tobytes()
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_draw_transforms_every_image_of_every_batch_alike(operation: str) -> None:
    """One draw transforms every image of two batches as it does the image alone; copies stay so."""
    one = Draw(operation, uniform(1))
    first, second = images(5), images(8)[5:]
    for batch in (first, second):
        alone = torch.cat([apply(picture[None], one) for picture in batch])
        torch.testing.assert_close(apply(batch, one), alone, rtol=0, atol=1e-12)
        written_out = Draw(operation, one.uniform.repeat(1, len(batch)))
        assert torch.equal(apply(batch, one), apply(batch, written_out))
    copies = apply(first[:1].repeat(4, 1, 1, 1), one)
    assert all(torch.equal(copies[0], copy) for copy in copies[1:])
    assert not torch.equal(copies[0], first[0])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_draws_per_image_go_to_the_operation_as_they_are(operation: str) -> None:
    given = Draw(operation, uniform())
    expected = OPERATIONS[operation](images(), uniform())
    assert apply(images(), given).numpy().tobytes() == expected.numpy().tobytes()


def test_a_draw_for_all_images_has_one_column_and_its_gradient_passes_through() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = {one.operation: one for one in (draw_once(generator) for _ in range(60))}
    assert set(drawn) == set(OPERATIONS)
    for one in drawn.values():
        assert one.uniform.shape == (3, 1)
        small = images(2, 2, 4, 4).requires_grad_()
        assert torch.autograd.gradcheck(lambda value, one=one: apply(value, one), (small,))


def test_a_long_picture_is_rotated_and_not_sheared() -> None:
    """A disc in the centre of a picture of 15 x 45 pixels stays one, whatever the angle."""
    row, column = np.mgrid[:15, :45]
    disc = np.exp(-((row - 7) ** 2 + (column - 22) ** 2) / 18)[None, None].repeat(5, 0)
    turned = diffaugment.rotate(torch.from_numpy(disc), uniform())
    np.testing.assert_allclose(turned[..., 4:11, 19:26], disc[..., 4:11, 19:26], atol=0.03)


@pytest.mark.parametrize(("height", "width"), [(9, 9), (6, 11), (11, 6)])
def test_affine_sources_are_torch_s_own(height: int, width: int) -> None:
    """Every image has its own matrix; torch's affine_grid computes the same as a product.

    Its coordinates are fractions of the sides. In these, the entries that mix x and y have factors.
    """
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(5, 2, height, width, generator=generator)
    matrix = torch.randn(5, 2, 3, generator=generator)
    matrix[:, :, 2] = 0  # no shift
    theta = [[matrix[:, row, column].clone() for column in range(2)] for row in range(2)]
    ratio = (height - 1) / (width - 1)
    matrix[:, 0, 1] *= ratio
    matrix[:, 1, 0] /= ratio
    grid = torch.nn.functional.affine_grid(matrix, list(images.shape), align_corners=True)
    expected = torch.nn.functional.grid_sample(images, grid, align_corners=True)
    torch.testing.assert_close(diffaugment._affine(images, theta), expected, rtol=0, atol=1e-5)
