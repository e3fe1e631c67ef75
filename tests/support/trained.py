"""Inputs in files for trained models, and commands that use them in this process."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

QUICK: dict[str, Any] = {
    "partition": "iid",
    "model": "mlp(hidden=16)",
    "clients": 2,
    "rounds": 2,
    "local_steps": 20,
    "batch_size": 32,
    "lr": 0.1,
}


def save_pictures(folder: Path, images: Iterable[Any], names: Iterable[str]) -> list[Path]:
    """Save grey pictures (1, height, width) as PNG."""
    paths = []
    for image, name in zip(images, names, strict=False):
        paths.append(folder / f"{name}.png")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(image)[0]).save(paths[-1])
    return paths
