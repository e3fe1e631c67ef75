"""The pictures that runs leave with --save-images: virtual, generated and distilled images."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import SafetensorError, safe_open

from fedmirage.report.groups import Group
from fedmirage.show.words import spread_out

PER_ROW = 12  # pictures of one methods line
ALL = 96  # pictures of a group; with many lines, each has fewer
ROUNDS = 4  # rounds that are shown of each line
WHITE = 255  # what is drawn between images
WRITTEN = 0.1  # the share of a row or column that letters beside the images may take
COLUMNS = 10  # images of one snapshot of DynaFed's set
ROUND = re.compile(r"round-(\d+)")
CLIENT = re.compile(r"client-(\d+)-(.+)")
SERVER_SHEETS = {"virtual": "virtual images that all clients share", "global": "global images"}


@dataclass(frozen=True)
class Picture:
    """A picture inside the page."""

    caption: str
    source: str  # a data URI
    width: int
    height: int
    structure: float  # how much more than noise it shows, from 0 to 1


@dataclass(frozen=True)
class Gallery:
    """The pictures of one methods line, all from one of its runs."""

    name: str
    seed: int
    pictures: list[Picture]
    there: int  # how many there are
    folder: Path


def find_galleries(group: Group) -> list[Gallery]:
    """Collect the pictures of every methods line, from its first seed that has any.

    Those come first in which a person can see something, and those that look like noise last.
    """
    limit = max(2, min(PER_ROW, ALL // max(1, len(group.runs))))
    found = []
    for name, runs in group.runs.items():
        for seed, run in runs.items():
            files = list_files(run.folder)
            if files:
                shown = [show(path) for path in thin(files, limit)]
                known = sorted(
                    filter(None, shown), key=lambda picture: -round(picture.structure, 1)
                )
                found.append(Gallery(name, seed, known, len(files), run.folder))
                break
    best = {one.name: max((each.structure for each in one.pictures), default=0) for one in found}
    return sorted(found, key=lambda one: -round(best[one.name], 1))  # a placebo after its method


def list_files(folder: Path) -> list[Path]:
    """List what a run drew, and what DynaFed saved to be drawn, in the order of rounds."""
    drawn = [*folder.glob("images/*.png"), *folder.glob("images/round-*/*.png")]
    return sorted(
        [*drawn, *folder.glob("dynafed/round-*.safetensors")],
        key=lambda path: (round_of(path), path.stem),
    )


def thin(files: Sequence[Path], limit: int) -> list[Path]:
    """Choose some pictures: a few rounds, evenly spread, and a few pictures of each of them."""
    by_round: dict[int, list[Path]] = {}
    for path in files:
        by_round.setdefault(round_of(path), []).append(path)
    rounds = list(by_round)
    shown = [rounds[place] for place in spread_out(len(rounds), min(ROUNDS, limit))]
    each = max(1, limit // max(1, len(shown)))
    return [
        by_round[number][place]
        for number in shown
        for place in (spread_out(len(by_round[number]), each) if each > 1 else [0])
    ]


def round_of(path: Path) -> int:
    """The round that a picture belongs to; 0 if it belongs to the whole run."""
    found = ROUND.search(f"{path.parent.name}/{path.name}")
    return int(found[1]) if found else 0


def describe_gallery(path: Path) -> str:
    """Say what a picture shows; this is its caption and its text for who does not see it."""
    number = round_of(path)
    when = f"round {number}: " if number else ""
    if path.suffix != ".png":
        return f"{when}dynafed's synthetic set as it was learned, one row per iteration"
    client = CLIENT.fullmatch(path.stem)
    if not client:
        return f"{when}{SERVER_SHEETS.get(path.stem, path.stem)}"
    what = client[2]
    if what.endswith("-steps"):
        what = f"{what.removesuffix('-steps')}, one image per class while it was made"
    return f"{when}client {int(client[1])}, {what}"


def show(path: Path) -> Picture | None:
    """Put a picture into the page; one that is damaged or being written is left out."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, SafetensorError):
        return None


@lru_cache(maxsize=512)
def _read(path: Path, changed: int) -> Picture:
    """Read a picture once; `changed` makes it be read again after a change.

    PNG files are taken as they are: lossless WebP would save a third, and takes longer than all
    else together.
    """
    if path.suffix == ".png":
        content = path.read_bytes()
        sheet: Image.Image = Image.open(io.BytesIO(content))
    else:
        sheet, buffer = draw_snapshots(path), io.BytesIO()
        sheet.save(buffer, "PNG")
        content = buffer.getvalue()
    source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return Picture(describe_gallery(path), source, *sheet.size, measure_structure(sheet))


def measure_structure(picture: Image.Image) -> float:
    """Correlate neighbouring pixels, which in noise have nothing to do with each other.

    Images were enlarged by repeating pixels, so rows and columns that repeat count once; white ones
    lie between images.
    """
    pixels = np.asarray(picture.convert("L"), dtype=np.float64)
    for _ in range(2):  # rows, then columns
        changed = (np.diff(pixels, axis=0) != 0).mean(axis=1)
        pixels = pixels[np.r_[True, changed > WRITTEN]].T
    found = []
    for one, other in ((pixels[:-1], pixels[1:]), (pixels[:, :-1], pixels[:, 1:])):
        kept = (one < WHITE) & (other < WHITE)
        pair = one[kept], other[kept]
        if kept.any() and min(side.std() for side in pair) > 0:
            found.append(float(np.corrcoef(*pair)[0, 1]))
    return max(0.0, min(found, default=0.0))


def draw_snapshots(path: Path) -> Image.Image:
    """Draw DynaFed's images at every saved iteration; each column keeps one image.

    Pixels go far beyond black and white, so every row is shown from its own 1st to its 99th
    percentile.
    """
    import torch

    from fedmirage.common.image_grid import draw_grid

    with safe_open(path, framework="numpy") as file:
        names = sorted(name for name in file.keys() if name.startswith("images@"))  # noqa: SIM118
        snapshots = {name: file.get_tensor(name) for name in names or ["images"]}
    rows = {}
    for name, images in snapshots.items():
        chosen = images[spread_out(len(images), COLUMNS)]
        low, high = np.percentile(chosen, [1, 99])
        scaled = torch.from_numpy((chosen - low) / max(high - low, 1e-9)).float()
        rows[f"after {int(name.rpartition('@')[2] or 0)}"] = list(scaled)
    channels = next(iter(snapshots.values())).shape[1]
    return draw_grid(rows, [0.0] * channels, [1.0] * channels)
