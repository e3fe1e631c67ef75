"""Digits in five styles, each a domain, made from grey pictures of digits.

Every picture belongs to one domain, and to the training or the test split, before anything is done
to it. So no picture occurs twice, however it was changed. Backgrounds are computed: grey surfaces,
and colourful patches in place of photographs. One style is rendered from fonts: placed, sized,
turned, slanted and coloured at random.
"""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from fedmirage.common.data.catalogue.cards import DIGIT_STYLES
from fedmirage.common.data.derived.resample import (
    blur,
    positions,
    sample,
    smooth_field,
    turn,
    uniform,
)
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import Images, PictureForm, Raw, RawSplit
from fedmirage.common.data.partitions.counts import split_evenly
from fedmirage.common.seeds import numpy_generator, torch_generator

CLASSES = 10
WARP = 0.1  # how far the warp moves a pixel at most, in sides of the picture
BLUR = 0.05  # standard deviation of the blur, in sides of the picture


def make_domains(base: Raw, seed: int, channels: int | None) -> Raw:
    """Make a set with the column "domain" from a set of grey digits with both splits."""
    form = PictureForm(channels=channels)
    return base.change(lambda part, purpose: _make_split(part, seed, purpose, form))


def _make_split(base: RawSplit, seed: int, purpose: str, form: PictureForm) -> RawSplit:
    """Make one split; the rendered domain, which uses no picture, is as large as the others."""
    labels, size = base.labels.astype(np.int64), base.images.shape[-1]
    used = [style for style in DIGIT_STYLES if style != "rendered"]
    given = split_evenly(labels, len(used), numpy_generator(seed, "digit-styles", purpose))
    shares = dict(zip(used, given, strict=True))
    images, numbers = [], []
    for style in DIGIT_STYLES:
        generator = torch_generator(seed, "digit-styles", purpose, style)
        if style == "rendered":
            wanted = torch.randperm(len(labels) // len(used), generator=generator) % CLASSES
            made = render(wanted, size, generator)
        else:
            wanted = torch.from_numpy(labels[shares[style]])
            digits = torch.from_numpy(base.images[shares[style]]).double() / 255
            made = _change(style, digits, generator)
        images.append(arrange(to_bytes(made), form))
        numbers.append(wanted.numpy())
    domain = np.repeat(np.arange(len(numbers)), [len(part) for part in numbers])
    return RawSplit(np.concatenate(images), np.concatenate(numbers), {"domain": domain})


def _change(style: str, digits: Tensor, generator: torch.Generator) -> Tensor:
    """Return digits, (samples, 1, size, size) in [0, 1], in their new style with three channels."""
    count, size = len(digits), digits.shape[-1]
    match style:
        case "inverted":  # dark on a bright surface
            digits = grey_surfaces(count, size, generator) * (1 - digits)
        case "blended":  # as MNIST-M: the difference of patch and digit, colour by colour
            digits = (colour_patches(count, size, generator) - digits).abs()
        case "warped":
            digits = blur(_warp(digits, generator), BLUR * size)
    return digits.expand(-1, 3, -1, -1)


def _warp(digits: Tensor, generator: torch.Generator) -> Tensor:
    """Move every pixel by a smooth random field, as if the picture were of rubber."""
    count, size = len(digits), digits.shape[-1]
    field = (2 * smooth_field(count, 2, 4, size, generator) - 1) * WARP * size
    rows, columns = positions(size, size)
    return sample(digits, rows + field[:, 0], columns + field[:, 1])


def to_bytes(images: Tensor) -> Images:
    """Round values in [0, 1] to bytes."""
    return images.clamp(0, 1).mul(255).round().to(torch.uint8).numpy()


def grey_surfaces(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw bright surfaces: stripes of any direction and width, with stains. (count, 1, size, size)

    Values are between 0.4 and 1, so that a dark digit stays visible everywhere.
    """
    phase = uniform(count, 0, 2 * math.pi, generator).view(-1, 1, 1)
    waves = uniform(count, 2, 5, generator).view(-1, 1, 1)  # per side of the picture
    across = _distance_across(count, size, generator)
    stripes = 0.5 + 0.5 * torch.sin(2 * math.pi * waves * across + phase)
    stains = smooth_field(count, 1, 4, size, generator)
    return 0.4 + 0.6 * (0.45 * stripes[:, None] + 0.55 * stains)


def colour_patches(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Draw two smoothly coloured areas that meet at a straight edge. (count, 3, size, size)

    They stand for the crops of photographs behind the digits of MNIST-M: strong colours, coarse
    and fine structure, and edges.
    """
    one, other = (_colours(count, size, generator) for _ in range(2))
    offset = uniform(count, -0.3, 0.3, generator).view(-1, 1, 1)
    beyond = _distance_across(count, size, generator) > offset
    return torch.where(beyond[:, None], one, other)


def _colours(count: int, size: int, generator: torch.Generator) -> Tensor:
    base = torch.rand(count, 3, 1, 1, generator=generator, dtype=torch.float64)
    coarse = smooth_field(count, 3, 3, size, generator) - 0.5
    fine = smooth_field(count, 3, max(4, size // 2), size, generator) - 0.5
    return (base + 0.5 * coarse + 0.3 * fine).clamp(0, 1)


def _distance_across(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Return the signed distance of every pixel to a line through the middle, in sides.

    The direction is drawn for each of the (count, size, size).
    """
    rows, columns = positions(size, size)
    sine, cosine = turn(uniform(count, 0, 360, generator))
    middle = (size - 1) / 2
    return ((rows - middle) * sine + (columns - middle) * cosine) / size


# Fonts that come with matplotlib: with and without serifs, upright and slanted, thin and bold.
FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono-Oblique", "DejaVuSerif-Bold"),
    *("DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralBolIta", "cmb10", "cmss10", "cmtt10"),
)
RASTER = 96  # height in pixels at which a font is drawn, once
CONTRAST = 0.35  # least difference in lightness of digit and background


def render(labels: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Render one picture per label: (samples, 3, size, size), values in [0, 1]."""
    count = len(labels)
    fonts = torch.randint(len(FONTS), (count,), generator=generator)
    shapes = _rasters(size)[fonts, labels][:, None]  # (samples, 1, size, size)
    rows, columns = positions(size, size)
    middle = (size - 1) / 2
    sine, cosine = turn(uniform(count, -25, 25, generator))
    slant = uniform(count, -0.2, 0.2, generator).view(-1, 1, 1)
    zoom = uniform(count, 0.65, 0.95, generator).view(-1, 1, 1)
    shift = uniform(count, -0.12 * size, 0.12 * size, generator, 2, 1, 1)
    # from a pixel of the picture back to the place in the raster that it shows
    down, across = (rows - middle - shift[:, 0]) / zoom, (columns - middle - shift[:, 1]) / zoom
    turned_down, turned_across = cosine * down - sine * across, sine * down + cosine * across
    ink = sample(shapes, turned_down + middle, turned_across + slant * turned_down + middle)
    return _colour(ink.clamp(0, 1), generator)


def _colour(ink: Tensor, generator: torch.Generator) -> Tensor:
    """Put ink of one colour on a background that shades from one colour into another.

    Where both are too alike, the digit becomes black or white.
    """
    count, size = len(ink), ink.shape[-1]
    colours = torch.rand(count, 3, 3, 1, 1, generator=generator, dtype=torch.float64)
    shading = smooth_field(count, 1, 2, size, generator)
    background = colours[:, 0] + 0.4 * shading * (colours[:, 1] - colours[:, 0])
    digit = colours[:, 2]
    behind = background.mean(dim=(1, 2, 3)).view(-1, 1, 1, 1)
    alike = (digit.mean(dim=1, keepdim=True) - behind).abs() < CONTRAST
    digit = torch.where(alike, (behind < 0.5).to(digit.dtype), digit)
    return background + ink * (digit - background)


@lru_cache(maxsize=4)
def _rasters(size: int) -> Tensor:
    """Draw the ten digits in every font, each as high as the picture: (fonts, 10, size, size)."""
    # imported here, because it takes long and only says where the fonts are
    from matplotlib import get_data_path

    folder = Path(get_data_path()) / "fonts" / "ttf"
    drawn = [
        _draw(ImageFont.truetype(str(folder / f"{font}.ttf"), RASTER), str(digit))
        for font in FONTS
        for digit in range(10)
    ]
    small = arrange(np.stack(drawn)[:, None], PictureForm(size))
    return torch.from_numpy(small).double().div(255).view(len(FONTS), 10, size, size)


def _draw(
    font: ImageFont.FreeTypeFont, text: str
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Draw a digit in white, as high as the square that it is centred in."""
    left, top, right, bottom = font.getbbox(text)
    side = max(right - left, bottom - top)
    picture = Image.new("L", (int(side), int(side)))
    place = ((side - right - left) / 2, (side - bottom - top) / 2)
    ImageDraw.Draw(picture).text(place, text, fill=255, font=font)
    return np.asarray(picture.resize((RASTER, RASTER), Image.Resampling.BILINEAR))
