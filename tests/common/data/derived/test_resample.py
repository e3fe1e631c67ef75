"""Batched geometry against scipy, picture by picture."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from fedmirage.common.data.derived.resample import Border, blur, positions, sample, smooth_field

MODES: dict[Border, str] = {"edge": "reflect", "centre": "mirror"}


def noise(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("border", ["edge", "centre"])
def test_values_between_pixels_are_those_of_scipy(border: Border) -> None:
    images, moved = noise(3, 2, 9, 7), 8 * noise(2, 3, 9, 7) - 4
    rows, columns = positions(9, 7)
    ours = sample(images, rows + moved[0], columns + moved[1], border)
    for number in range(3):
        places = np.stack([rows + moved[0, number], columns + moved[1, number]])
        for channel in range(2):
            theirs = ndimage.map_coordinates(
                images[number, channel].numpy(), places, order=1, mode=MODES[border]
            )
            assert np.allclose(ours[number, channel], theirs, atol=1e-12)


def test_beyond_a_border_of_nothing_there_is_nothing() -> None:
    images = 1 + noise(1, 1, 5, 5)
    rows, columns = (place[None] for place in positions(5, 5))
    assert torch.allclose(sample(images, rows, columns), images)
    shifted = sample(images, rows - 2, columns)
    assert torch.allclose(shifted[:, :, 2:], images[:, :, :3])
    assert shifted[:, :, :2].abs().max() < 1e-12


@pytest.mark.parametrize("sigma", [0.05, 0.4, 1.0, 6.4])
@pytest.mark.parametrize(("border", "mode"), [("replicate", "nearest"), ("reflect", "reflect")])
def test_blur_is_that_of_scipy(sigma: float, border: str, mode: str) -> None:
    images = noise(2, 3, 8, 11)
    ours = blur(images, sigma, 3.0, border)  # type: ignore[arg-type]
    theirs = ndimage.gaussian_filter(images.numpy(), (0, 0, sigma, sigma), mode=mode, truncate=3.0)
    assert np.allclose(ours, theirs, atol=1e-12)


def test_smooth_fields_are_smooth_and_fill_their_range() -> None:
    field = smooth_field(20, 1, 3, 16, torch.Generator().manual_seed(0))
    steps = (field[:, :, 1:] - field[:, :, :-1]).abs()
    assert steps.max() < 0.3
    assert field.min() < 0.05
    assert field.max() > 0.95
