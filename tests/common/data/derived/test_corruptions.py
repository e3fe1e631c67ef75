"""The 19 corruptions: each as a whole, and some against a computation for single pictures."""

import colorsys
import io
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torch import Tensor

from fedmirage.common.data.catalogue import cards
from fedmirage.common.data.derived.corruptions import (
    CORRUPTIONS,
    blurs,
    colours,
    corrupt,
    shapes,
    weather,
)
from fedmirage.common.data.derived.corruptions.spatter import distance_to, find_edges

# Of these, a higher severity is another corruption rather than a stronger one.
UNEVEN = {"glass_blur", "frost", "elastic_transform", "spatter", "saturate"}
# Brightness, contrast, blurs and files change all pictures alike; the others draw.
FIXED = {
    *("defocus_blur", "zoom_blur", "gaussian_blur", "brightness", "contrast", "saturate"),
    *("pixelate", "jpeg_compression"),
}


@pytest.fixture(scope="module")
def photographs() -> Tensor:
    """Twelve smooth colourful pictures with edges and fine structure, as bytes."""
    rng = np.random.default_rng(0)
    made = ndimage.gaussian_filter(rng.random((12, 3, 32, 32)), (0, 0.4, 3, 3))
    made = (made - made.min()) / (made.max() - made.min())
    made[:, :, 8:20, 10:16] = rng.random((12, 3, 1, 1))
    made += 0.05 * rng.standard_normal(made.shape)
    return torch.from_numpy(np.rint(made.clip(0, 1) * 255).astype(np.uint8))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distance(one: Tensor, other: Tensor) -> float:
    return (one.double() - other.double()).abs().mean().item()


def test_there_are_nineteen_by_their_published_names() -> None:
    assert tuple(CORRUPTIONS) == cards.CORRUPTIONS
    assert len(CORRUPTIONS) == 19


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_keeps_the_form_and_grows_with_its_severity(
    name: str, photographs: Tensor
) -> None:
    before = photographs.clone()
    distances = []
    for severity in range(1, 6):
        shown = corrupt(photographs, name, severity, generator())
        assert shown.shape == photographs.shape
        assert shown.dtype == torch.uint8
        assert torch.equal(shown, corrupt(photographs, name, severity, generator()))
        values = CORRUPTIONS[name](photographs.double() / 255, severity, generator())
        assert torch.isfinite(values).all()
        distances.append(distance(shown, photographs))
    assert torch.equal(photographs, before)
    assert min(distances) > 0.3
    if name not in UNEVEN:
        assert all(b >= 0.995 * a for a, b in pairwise(distances))
        assert distances[4] > 1.1 * distances[0]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_picture_has_draws_of_its_own_and_only_the_generator_decides(
    name: str, photographs: Tensor
) -> None:
    same = photographs[:1].expand(4, -1, -1, -1)
    shown = corrupt(same, name, 3, generator())
    differ = any(not torch.equal(shown[0], shown[number]) for number in range(1, 4))
    assert differ == (name not in FIXED)
    assert torch.equal(shown, corrupt(same, name, 3, generator(1))) == (name in FIXED)


def test_noise_has_the_published_strength() -> None:
    grey = torch.full((20, 3, 32, 32), 0.5, dtype=torch.float64)
    for severity, (normal, photons, share, speckle) in enumerate(
        zip(
            (0.04, 0.06, 0.08, 0.09, 0.10),
            (500, 250, 100, 75, 50),
            (0.01, 0.02, 0.03, 0.05, 0.07),
            (0.06, 0.1, 0.12, 0.16, 0.2),
            strict=True,
        ),
        start=1,
    ):
        made = {
            name: CORRUPTIONS[name](grey, severity, generator()) - grey
            for name in ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise")
        }
        assert made["gaussian_noise"].std().item() == pytest.approx(normal, rel=0.02)
        # the variance of a Poisson number is its mean, here 0.5 * photons
        expected = math.sqrt(0.5 * photons) / photons
        assert made["shot_noise"].std().item() == pytest.approx(expected, rel=0.02)
        assert (made["impulse_noise"] != 0).double().mean().item() == pytest.approx(share, rel=0.06)
        assert set(made["impulse_noise"].unique().tolist()) == {-0.5, 0.0, 0.5}
        assert made["speckle_noise"].std().item() == pytest.approx(0.5 * speckle, rel=0.02)


@pytest.mark.parametrize("severity", range(1, 6))
def test_brightness_and_saturation_pixel_by_pixel(severity: int, photographs: Tensor) -> None:
    """Python's own colorsys converts single colours."""
    few = photographs[:2, :, ::4, ::4].double() / 255
    few[0, :, 0, 0] = 0.5  # grey has no hue
    few[0, :, 0, 1] = 0.0
    more = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    factor, extra = ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))[severity - 1]
    lighter = colours.brightness(few, severity, generator())
    stronger = colours.saturate(few, severity, generator())
    for number, row, column in np.ndindex(2, 8, 8):
        hue, saturation, value = colorsys.rgb_to_hsv(*few[number, :, row, column].tolist())
        expected = colorsys.hsv_to_rgb(hue, saturation, min(1, value + more))
        assert lighter[number, :, row, column].tolist() == pytest.approx(expected)
        expected = colorsys.hsv_to_rgb(hue, min(1, saturation * factor + extra), value)
        assert stronger[number, :, row, column].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("severity", range(1, 6))
def test_pixelate_is_that_of_pillow(severity: int, photographs: Tensor) -> None:
    small = int(32 * (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1])
    shown = corrupt(photographs, "pixelate", severity, generator())
    for picture, ours in zip(photographs, shown, strict=True):
        image = Image.fromarray(picture.permute(1, 2, 0).numpy())
        image = image.resize((small, small), Image.Resampling.BOX)
        image = image.resize((32, 32), Image.Resampling.BOX)
        assert np.array_equal(ours.permute(1, 2, 0).numpy(), np.asarray(image))


@pytest.mark.parametrize("severity", range(1, 6))
def test_jpeg_is_that_of_real_files_within_rounding(severity: int, photographs: Tensor) -> None:
    quality = (80, 65, 58, 50, 40)[severity - 1]
    shown = corrupt(photographs, "jpeg_compression", severity, generator())
    differences = []
    for picture, ours in zip(photographs, shown, strict=True):
        stream = io.BytesIO()
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(stream, "JPEG", quality=quality)
        theirs = np.asarray(Image.open(stream), dtype=int)
        differences.append(np.abs(ours.permute(1, 2, 0).numpy().astype(int) - theirs))
    assert np.mean(differences) < 0.7
    assert distance(shown, photographs) > 3 * np.mean(differences)


def test_motion_blur_pixel_by_pixel(photographs: Tensor) -> None:
    """Sum over steps i along the line, weight exp(-i^2 / 2 sigma^2), borders repeated."""
    few = photographs[:2, :, :12, :12].double() / 255
    degrees = torch.tensor([30.0, -70.0], dtype=torch.float64)
    ours = blurs.streak(few, radius=3, sigma=1.5, degrees=degrees)
    weights = [math.exp(-(step**2) / (2 * 1.5**2)) for step in range(7)]
    for number, row, column in np.ndindex(2, 12, 12):
        angle = math.radians(degrees[number].item())
        expected = np.zeros(3)
        for step, weight in enumerate(weights):
            down = math.ceil(step * math.sin(angle) - 0.5)
            right = math.ceil(step * math.cos(angle) - 0.5)
            there = few[number, :, min(max(row + down, 0), 11), min(max(column + right, 0), 11)]
            expected += weight / sum(weights) * there.numpy()
        assert np.allclose(ours[number, :, row, column], expected)


def test_glass_takes_pixels_one_after_the_other(photographs: Tensor) -> None:
    """A loop from the last pixel to the first, which reads only what it has not yet written, gives
    the same as taking all at once. Severity 1 blurs by too little to change a byte."""
    few = photographs[:2].double() / 255
    shown = blurs.glass_blur(few, 1, generator())
    up, left = torch.randint(0, 2, (2, 2, 32, 32), generator=generator())
    expected = few.clone()
    for number in range(2):
        for row in range(31, 1, -1):
            for column in range(31, 1, -1):
                source = row - up[number, row, column], column - left[number, row, column]
                expected[number, :, row, column] = expected[number, :, source[0], source[1]]
    assert torch.allclose(shown, expected)


def test_zoom_is_that_of_scipy(photographs: Tensor) -> None:
    few = photographs[:2].double() / 255
    for factor in (1.0, 1.05, 1.25, 2.25):
        ours = blurs.enlarge(few, factor)
        kept = math.ceil(32 / factor)
        first = (32 - kept) // 2
        middle = few[:, :, first : first + kept, first : first + kept].numpy()
        theirs = ndimage.zoom(middle, (1, 1, factor, factor), order=1)
        surplus = (theirs.shape[2] - 32) // 2
        theirs = theirs[:, :, surplus : surplus + 32, surplus : surplus + 32]
        assert np.allclose(ours, theirs)


def test_defocus_keeps_brightness_and_spreads_a_point() -> None:
    point = torch.zeros(1, 3, 32, 32, dtype=torch.float64)
    point[:, :, 16, 16] = 1
    spread = [blurs.defocus_blur(point, severity, generator()) for severity in range(1, 6)]
    for shown in spread:
        assert shown.sum().item() == pytest.approx(3)
    # radius 1 with hardly any softening is a cross of five pixels, radius 1.5 a square of nine
    assert spread[3][0, 0, 16, 16].item() == pytest.approx(0.2, abs=1e-4)
    assert spread[4][0, 0, 15:18, 15:18].numpy() == pytest.approx(np.full((3, 3), 1 / 9), abs=1e-4)


def test_clouds_fill_their_range_and_the_brightest_value_stays(photographs: Tensor) -> None:
    clouds = weather.plasma(5, 32, 2.0, generator())
    assert clouds.amin(dim=(1, 2)).tolist() == [0] * 5
    assert clouds.amax(dim=(1, 2)).tolist() == [1] * 5
    assert weather.plasma(2, 28, 2.0, generator()).shape == (2, 28, 28)
    few = photographs.double() / 255
    assert (weather.fog(few, 5, generator()).amax() <= few.amax() + 1e-12).all()


def test_three_points_move_where_they_are_drawn() -> None:
    """The affine map shows, at the new place of a point, what was at its old one. A picture whose
    values are its columns and rows tells the place that it shows."""
    rows, columns = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    ramp = torch.stack((columns, rows, rows)).double()[None] / 31
    moved = shapes._move_points(ramp, 2.0, generator()) * 31
    after = torch.tensor([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]], dtype=torch.float64)
    drawn = 4 * torch.rand(1, 3, 2, generator=generator(), dtype=torch.float64) - 2
    for before, (x, y) in zip(after.tolist(), (after + drawn[0]).tolist(), strict=True):
        places = [[y], [x]]
        shown = [
            ndimage.map_coordinates(moved[0, channel].numpy(), places, order=1)[0]
            for channel in (0, 1)
        ]
        assert shown == pytest.approx(before, abs=1e-6)


def test_distances_are_those_of_scipy() -> None:
    marked = torch.rand(5, 1, 32, 32, generator=generator()) < 0.02
    theirs = [ndimage.distance_transform_edt(~picture[0].numpy()) for picture in marked]
    assert np.allclose(distance_to(marked)[:, 0], theirs)


def test_edges_are_thin_lines_around_a_square() -> None:
    picture = torch.zeros(1, 1, 32, 32, dtype=torch.float64)
    picture[:, :, 10:20, 10:20] = 200
    edges = find_edges(picture)[0, 0]
    assert 28 <= int(edges.sum()) <= 44  # one pixel wide: about the 36 of the outline
    assert not edges[12:18, 12:18].any()
    assert not edges[:8].any()
    picture[:] = 100
    assert not find_edges(picture).any()
