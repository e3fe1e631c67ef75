"""Digits that are rendered from fonts: placed, sized, turned, slanted and coloured at random."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from fedmirage.common.data.derived.resample import positions, sample, smooth_field, turn, uniform
from fedmirage.common.data.files.decoding import arrange
from fedmirage.common.data.files.raw import PictureForm

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
