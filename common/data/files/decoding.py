"""Turns encoded pictures and arrays into bytes of one form: (samples, channels, height, width)."""

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from fedmirage.common.data.files.raw import Images, PictureForm
from fedmirage.common.errors import DataError, reason

# Only decoders of pixels: Pillow would hand an EPS file to Ghostscript, whatever its name ends in.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
MOST_PIXELS = 50_000_000  # of one picture
MOST_BYTES = 2**36  # of all decoded pictures together
GREY_MODES = ("L", "LA", "1", "La")
DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


def decode(
    encoded: Iterable[tuple[str, bytes | Path]], count: int, form: PictureForm
) -> tuple[Images, dict[int, str]]:
    """Decode `count` named pictures (PNG, JPEG, ...); they must all end up with the same shape.

    It also returns the positions of those that could not be read, and why, if the form skips them.

    A thread pool would not help: for small pictures most of the time is spent in Python, which
    holds the interpreter's lock.
    """
    images: Images | None = None
    position, lost = 0, dict[int, str]()
    for number, (name, content) in enumerate(encoded):
        try:
            picture = open_picture(name, content, form)  # (channels, height, width)
        except DataError as error:
            if not form.skip:
                raise
            lost[number] = str(error)
            continue
        if images is None:
            if count * picture.size > MOST_BYTES:
                raise DataError(
                    f"{count} pictures like {name} take {count * picture.size / 2**30:.0f} GiB;"
                    " write size= to make them smaller"
                )
            images = np.empty((count, *picture.shape), np.uint8)
        if picture.shape != images.shape[1:]:
            raise DataError(_explain_mismatch(name, picture.shape, images.shape[1:]))
        images[position] = picture
        position += 1
    if images is None:
        images = np.empty((0, form.channels or 1, form.size or 1, form.size or 1), np.uint8)
    return images[:position], lost


def arrange(images: Images, form: PictureForm) -> Images:
    """Bring (samples, channels, height, width) into the form, just as if each had been a file."""
    channels, height, width = images.shape[1:]
    if channels not in (1, 3):
        raise DataError(
            f"the pictures have {channels} channels; convert them to 1 (grey) or 3 (colour)"
        )
    if form.size is not None and (height, width) != (form.size, form.size):
        resized = np.empty((len(images), channels, form.size, form.size), np.uint8)
        for position, image in enumerate(images):
            picture = Image.fromarray(image[0] if channels == 1 else image.transpose(1, 2, 0))
            resized[position] = _planes(_resize(picture, form.size))
        images = resized
    return _recolour(images, form.channels)


def open_picture(name: str, content: bytes | Path, form: PictureForm) -> Images:
    """Decode one picture as (1 or 3, height, width) bytes; raise a sentence if it is none."""
    try:
        data = content.read_bytes() if isinstance(content, Path) else content
        picture: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
        if picture.width * picture.height > MOST_PIXELS:
            raise DataError(
                f"{name} is {picture.width}x{picture.height} pixels, and {MOST_PIXELS} are the"
                " most; make it smaller"
            )
        if picture.mode in DEEP_MODES:
            raise DataError(
                f"{name} has more than 8 bits per pixel (mode {picture.mode}); convert it to 8 bits"
            )
        wanted = "L" if picture.mode in GREY_MODES else "RGB"
        picture.load()
        picture = picture if picture.mode == wanted else picture.convert(wanted)
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise DataError(
            f"{name} is not a readable picture ({known}); get it again or remove it"
        ) from None
    except (OSError, SyntaxError, ValueError, TypeError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{name} is not a readable picture ({reason(error)}); get it again or remove it"
        ) from error
    pixels: Images = _recolour(_planes(_resize(picture, form.size))[None], form.channels)[0]
    return pixels


def _resize(picture: Image.Image, size: int | None) -> Image.Image:
    if size is None or picture.size == (size, size):
        return picture
    return picture.resize((size, size), Image.Resampling.BILINEAR)


def _planes(picture: Image.Image) -> Images:
    pixels = np.asarray(picture)  # (height, width) or (height, width, 3)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _recolour(images: Images, channels: int | None) -> Images:
    """Average three channels into 1, rounded to the nearest, or repeat one channel to get 3."""
    if channels is None or images.shape[1] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=1)
    total = images.sum(axis=1, keepdims=True, dtype=np.uint16)
    return np.asarray((total + 1) // 3, np.uint8)


def _explain_mismatch(name: str, shape: tuple[int, ...], before: tuple[int, ...]) -> str:
    keys = [] if shape[0] == before[0] else [f"channels={max(shape[0], before[0])}"]
    keys += [] if shape[1:] == before[1:] else [f"size={max(before[1:])}"]
    sizes = [
        f"{height}x{width} with {channels} channel{'s' * (channels > 1)}"
        for channels, height, width in (shape, before)
    ]
    return (
        f"{name} is {sizes[0]}, the pictures before it are {sizes[1]}; write {', '.join(keys)} to"
        " convert them all"
    )
