"""--save-images on a client: its virtual images, one row per class."""

from pathlib import Path

from fedmirage.client.methods.distil.matching import Matching
from fedmirage.client.round import LocalClient
from fedmirage.common.image_grid import draw_grid

ACROSS = 10  # images shown per class


def draw_picture(local: LocalClient, virtual: Matching, path: Path) -> None:
    """Write a sheet of virtual images; one that is there already shows the same."""
    if path.exists():
        return
    rows = {
        local.run.dataset.classes[label]: list(virtual.images[virtual.labels == label][:ACROSS])
        for label in dict.fromkeys(virtual.labels.tolist())
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_grid(rows, local.data.mean, local.data.std).save(path)
