"""Light and colour: brightness, contrast, saturation."""

import torch
from torch import Tensor


def brightness(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Raise the brightest of a pixel's colours, and the others in proportion."""
    more = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    hue, saturation, value = to_hsv(images)
    return from_hsv(hue, saturation, (value + more).clamp(0, 1))


def contrast(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Draw all values towards the mean of their channel in the same picture."""
    left = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    mean = images.mean(dim=(2, 3), keepdim=True)
    return (images - mean) * left + mean


def saturate(images: Tensor, severity: int, generator: torch.Generator) -> Tensor:
    """Take colour away (severity 1 and 2), or add some."""
    factor, more = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))[severity - 1]
    hue, saturation, value = to_hsv(images)
    return from_hsv(hue, (saturation * factor + more).clamp(0, 1), value)


def to_hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue, saturation and value in [0, 1], each (samples, height, width).

    Grey has the hue 0.
    """
    value, strongest = images.max(dim=1)
    spread = value - images.min(dim=1).values
    red, green, blue = images.unbind(dim=1)
    nonzero = spread.clamp(min=1e-12)
    sixths = torch.stack(
        ((green - blue) / nonzero, 2 + (blue - red) / nonzero, 4 + (red - green) / nonzero)
    )
    hue = sixths.gather(0, strongest[None])[0] / 6 % 1
    grey = spread == 0
    saturation = torch.where(grey, 0.0, spread / value.clamp(min=1e-12))
    return torch.where(grey, 0.0, hue), saturation, value


def from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Return red, green and blue as (samples, 3, height, width)."""
    # how far a colour is from its own place (0, 1/3, 2/3) on the circle, in sixths
    offsets = torch.tensor((5.0, 3.0, 1.0), dtype=hue.dtype).view(1, 3, 1, 1)
    sixth = (offsets + hue[:, None] * 6) % 6
    missing = torch.minimum(sixth, 4 - sixth).clamp(0, 1)
    return value[:, None] * (1 - saturation[:, None] * missing)
