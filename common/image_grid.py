"""Sheets of small images, with names beside the rows and above the columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

TILE = 64  # pixels: smaller images are enlarged to at least this size
GAP = 2
TEXT = 12  # the font size
ROWS, ACROSS = 20, 10  # a picture shows at most 20 classes, with 10 images per class


def draw_grid(
    rows: Mapping[str, Sequence[Tensor | None]],
    mean: Sequence[float],
    std: Sequence[float],
    columns: Sequence[str] = (),
) -> Image.Image:
    """Draw normalised images (channels, height, width), one row per name; None leaves a gap.

    Values beyond black and white are shown as black and white.
    """
    font = ImageFont.load_default(TEXT)
    first = next(image for row in rows.values() for image in row if image is not None)
    _, height, width = first.shape
    scale = max(1, -(-TILE // max(height, width)))
    tall, wide = height * scale + GAP, width * scale + GAP
    left = max(int(font.getlength(name)) for name in rows) + 3 * GAP
    top = TEXT + 3 * GAP if columns else 0
    across = max(len(row) for row in rows.values())
    sheet = Image.new("RGB", (left + across * wide, top + len(rows) * tall), "white")
    draw = ImageDraw.Draw(sheet)
    for column, name in enumerate(columns):
        draw.text((left + column * wide, GAP), name, "black", font)
    for line, (name, row) in enumerate(rows.items()):
        draw.text((GAP, top + line * tall + (tall - TEXT) // 2), name, "black", font)
        for column, image in enumerate(row):
            if image is not None:
                picture = Image.fromarray(pixels(image, mean, std)).resize(
                    (wide - GAP, tall - GAP), Image.Resampling.NEAREST
                )
                sheet.paste(picture, (left + column * wide, top + line * tall))
    return sheet


def draw_classes(
    images: Tensor,
    labels: Tensor,
    names: Sequence[str],
    mean: Sequence[float],
    std: Sequence[float],
    path: Path,
    most: int = ROWS,
) -> None:
    """Write a picture of the first images of each class, one row per class, at most so many."""
    rows = {
        names[number]: list(images[labels == number][:ACROSS])
        for number in sorted(set(labels.tolist()))[:most]
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_grid(rows, mean, std).save(path)


def pixels(image: Tensor, mean: Sequence[float], std: Sequence[float]) -> npt.NDArray[np.uint8]:
    """Turn a normalised (channels, height, width) into (height, width[, 3]) bytes."""
    scale, shift = (
        torch.tensor(values, device=image.device).view(-1, 1, 1) for values in (std, mean)
    )
    rounded = ((image * scale + shift).clamp(0, 1) * 255).round().to(torch.uint8)
    levels = rounded.permute(1, 2, 0).cpu().numpy()
    return np.asarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)
