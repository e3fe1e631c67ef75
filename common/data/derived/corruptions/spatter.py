"""Spatter: drops of water (severity 1 to 3) or mud (4 and 5) on the lens."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedmirage.common.data.derived.resample import blur

WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
WEAK, STRONG = 50, 150  # gradients at which an edge goes on, and at which one begins
FAR = 20  # distances beyond this are not told apart
RELIEF = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))  # brightens what rises to the lower right


def spatter(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Put liquid where a blurred noise is high."""
    mean, deviation, sigma, threshold, strength, mud = (
        (0.62, 0.1, 0.7, 0.7, 0.5, False),
        (0.65, 0.1, 0.8, 0.7, 0.5, False),
        (0.65, 0.3, 1.0, 0.69, 0.5, False),
        (0.65, 0.1, 0.7, 0.69, 0.6, True),
        (0.65, 0.1, 0.5, 0.68, 0.6, True),
    )[severity - 1]
    count, side = len(images), images.shape[-1]
    drawn = torch.randn(count, 1, side, side, generator=generator, dtype=images.dtype)
    liquid = blur(mean + deviation * drawn, sigma)
    if mud:
        cover = blur((liquid > threshold).to(images.dtype), strength)
        cover = torch.where(cover < 0.8, 0.0, cover)
        return images * (1 - cover) + cover * _colour(MUD, images)
    liquid = torch.where(liquid < threshold, 0.0, liquid).clamp(0, 1)
    return images + strength * _shine(torch.floor(liquid * 255)) * _colour(WATER, images)


def _colour(colour: tuple[float, ...], images: Tensor) -> Tensor:
    return torch.tensor(colour, dtype=images.dtype).view(1, 3, 1, 1)


def _shine(drops: Tensor) -> Tensor:
    """Return how brightly water shines, from 0 to 1: most where its surface, whose height is the
    distance to the edge of the drop, rises to the lower right. drops: bytes, (samples, 1, ...).
    """
    height = distance_to(find_edges(drops)).clamp(max=FAR)
    height = _equalise(torch.floor(_mean3(height)))
    relief = torch.tensor(RELIEF, dtype=drops.dtype).view(1, 1, 3, 3)
    slope = F.conv2d(F.pad(height, (1, 1, 1, 1), mode="reflect"), relief).clamp(0, 255)
    shine = drops * _mean3(slope).round()
    # a picture without any drop stays as it is
    return shine / shine.amax(dim=(2, 3), keepdim=True).clamp(min=1e-12)


def find_edges(images: Tensor) -> Tensor:
    """Find edges as Canny does: crests of the gradient that are connected to a strong one."""
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    along = torch.tensor((1, 2, 1), dtype=images.dtype)
    across = torch.tensor((-1, 0, 1), dtype=images.dtype)
    right = F.conv2d(padded, torch.outer(along, across)[None, None])
    down = F.conv2d(padded, torch.outer(across, along)[None, None])
    steep = right.abs() + down.abs()
    crest = _is_crest(steep, right, down) & (steep > WEAK)
    edges = crest & (steep > STRONG)
    while True:  # edges grow along crests until nothing changes
        grown = F.max_pool2d(edges.to(images.dtype), 3, stride=1, padding=1).bool() & crest
        if torch.equal(grown, edges):
            return edges
        edges = grown


def _is_crest(steep: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Say where the gradient is at least as large as before and behind, in its own direction."""
    side = steep.shape[-1]
    wide = F.pad(steep, (1, 1, 1, 1))

    def beside(rows: int, columns: int) -> Tensor:
        return wide[:, :, 1 + rows : 1 + rows + side, 1 + columns : 1 + columns + side]

    flat, upright = 0.41421356, 2.41421356  # tangents of 22.5 and 67.5 degrees
    level = down.abs() < flat * right.abs()
    steep_direction = down.abs() > upright * right.abs()
    falling = (right * down) > 0  # from the upper left to the lower right
    crests = {
        direction: (steep > beside(*before)) & (steep >= beside(*behind))
        for direction, before, behind in (
            ("level", (0, -1), (0, 1)),
            ("upright", (-1, 0), (1, 0)),
            ("falling", (-1, -1), (1, 1)),
            ("rising", (-1, 1), (1, -1)),
        )
    }
    diagonal = torch.where(falling, crests["falling"], crests["rising"])
    other = torch.where(steep_direction, crests["upright"], diagonal)
    return torch.where(level, crests["level"], other)


def distance_to(marked: Tensor) -> Tensor:
    """Return every pixel's distance to the next marked one, exactly; without any, a large number.

    The squared distance is the least of (rows apart)^2 + (distance within that row)^2.
    """
    side = marked.shape[-1]
    apart = (torch.arange(side)[:, None] - torch.arange(side)).double() ** 2
    beyond = torch.where(marked, 0.0, 1e6).double()
    in_row = (beyond[..., None, :] + apart).amin(dim=-1)  # (samples, 1, rows, columns)
    between = in_row.transpose(2, 3)[..., None, :] + apart  # (samples, 1, columns, rows, rows)
    return between.amin(dim=-1).transpose(2, 3).sqrt()


def _equalise(images: Tensor) -> Tensor:
    """Spread the shades of every picture, whole numbers up to 20, evenly from 0 to 255."""
    shades = images.flatten(1).long()
    counts = F.one_hot(shades, FAR + 1).sum(dim=1)  # (samples, shades)
    below = counts.cumsum(dim=1).double()
    least = counts.gather(1, shades.amin(dim=1, keepdim=True)).double()
    total = below[:, -1:]
    table = ((below - least) * 255 / (total - least).clamp(min=1)).round()
    spread = table.gather(1, shades).view(images.shape)
    uniform = (total == least).view(-1, 1, 1, 1)
    return torch.where(uniform, images, spread)


def _mean3(images: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(images, (1, 1, 1, 1), mode="reflect"), 3, stride=1)
