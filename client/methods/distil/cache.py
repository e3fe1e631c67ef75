"""Virtual images on the client's disk, finished or half finished.

They outlive a run: whatever run has the same fingerprint goes on where another one stopped, and
trains on the same images. One file per fingerprint is replaced in one step, so that a process that
is killed loses only what it did since the last one. The images derive from private data, so that
only their owner can read them. Everything here can be deleted at any time.
"""

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedmirage.client.methods.distil.matching import Matching
from fedmirage.client.round import LocalClient
from fedmirage.common.data.cache import cache_folder
from fedmirage.common.errors import DataError, reason
from fedmirage.common.methods.distil.declaration import Distilling
from fedmirage.common.wire.files import read_arrays, write_arrays
from fedmirage.common.wire.manifest import arrays_of

# Raise it when the same fingerprint would give other images.
VERSION = 1
FOLDER = "distilled"
FACTS = ("lr", "step", "loss", "setbacks")  # of a matching, beside its tensors
log = logging.getLogger("fedmirage")


def fingerprint(params: Distilling, local: LocalClient) -> str:
    """Return a digest of everything that the virtual images depend on.

    That is the client's images and labels, its place, the seed, the parameters, the network that
    gives the features, and what makes torch compute other bits. Of the parameters only those of
    `Distilling` count, so that FedLGD and Distil find the same images.
    """
    config, data = local.config, local.data
    facts: dict[str, Any] = {
        "version": VERSION,
        "torch": torch.__version__,
        "params": {name: getattr(params, name) for name in sorted(Distilling.model_fields)},
        "model": [config.model_params.name, config.model_params.model_dump()],
        "normalisation": [data.mean, data.std],
        "classes": local.classes,
        "partition": local.partition,
        "seed": config.seed,
        "device": local.device.type,
        "threads": config.threads,
        "memory_format": config.memory_format,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for tensor in (data.real.images, data.real.labels):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass
class CacheFile:
    """The file of one fingerprint."""

    path: Path

    @classmethod
    def of(cls, params: Distilling, local: LocalClient) -> "CacheFile":
        """Find the place of a client's virtual images."""
        return cls(cache_folder() / FOLDER / f"{fingerprint(params, local)}.safetensors")

    def load(self, device: torch.device, memory_format: torch.memory_format) -> Matching | None:
        """Return what is there; None if there is nothing, or if the file is damaged."""
        if not self.path.exists():
            return None
        try:
            arrays, facts = read_arrays(self.path)
        except DataError as error:
            log.warning("%s; it is made anew", error)
            return None
        images, velocity = (
            torch.tensor(arrays[name], device=device).contiguous(memory_format=memory_format)
            for name in ("images", "velocity")
        )
        labels = torch.tensor(arrays["labels"], device=device)
        return Matching(images, labels, velocity, **{name: facts[name] for name in FACTS})

    def steps(self) -> int:
        """How many steps the images on the disk have behind them; -1 if there are none."""
        found = self.load(torch.device("cpu"), torch.contiguous_format)
        return -1 if found is None else found.step

    def save(self, matching: Matching) -> None:
        """Replace the file in one step, readable by its owner only.

        A process that works on the same images may have come further; its file stays.
        """
        if self.steps() > matching.step:
            return
        tensors = (matching.images, matching.labels, matching.velocity)
        arrays = dict(zip(("images", "labels", "velocity"), arrays_of(tensors), strict=True))
        facts = {name: getattr(matching, name) for name in FACTS}
        try:
            write_arrays(self.path, arrays, facts, private=True)
        except OSError as error:
            raise DataError(
                f"the virtual images cannot be stored in {self.path.parent} ({reason(error)}); set"
                " FEDMIRAGE_CACHE to a folder that can be written"
            ) from None
