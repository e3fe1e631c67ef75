"""How far the images of two clients lie apart, before and after distillation (figure 1)."""

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmirage.client.build import load_common_view
from fedmirage.client.client import FederatedClient
from fedmirage.client.methods.distil.client import virtual_set
from fedmirage.client.methods.distil.matching import RealImages
from fedmirage.client.round import LocalClient
from fedmirage.common.data.view import ClientView
from fedmirage.common.learning.losses import kernel_discrepancy
from fedmirage.common.memory import Memory
from fedmirage.common.methods.distil.declaration import Distilling
from fedmirage.common.methods.fedlgd import REMEMBERED_LOCAL
from fedmirage.common.run import make_run
from fedmirage.common.seeds import torch_generator
from fedmirage.common.settings.config import RunConfig

DRAWS = 5  # how often real images are drawn; their distances are averaged
DIRECTIONS = 200  # of the sliced Wasserstein distance

# One client's images, real and virtual, as rows of normalised pixels. "real": as many images per
# class as there are virtual ones, drawn several times; "initial": the virtual images of the initial
# distillation; "last": those of the run's end, if refreshed.
Sets = dict[str, list[Tensor]]


def open_clients(config: RunConfig, memory: Path, rounds: int) -> dict[str, Sets]:
    """Read the images of every client of a run by its name, from the cache and from its memory."""
    params = next(method for method in config.method_list if isinstance(method, Distilling))
    found = {}
    for partition in range(config.clients):
        view = load_common_view(config, partition)
        run, model = make_run(config, view.dataset, torch.device("cpu"))
        client = FederatedClient(run, view, model, memory)
        local = LocalClient(**client.surroundings())
        initial = virtual_set(params, local)
        sets = {"real": draw_real(local, initial.labels), "initial": [initial.images.flatten(1)]}
        kept = Memory(memory / f"client-{partition:05d}", rounds + 1).get(REMEMBERED_LOCAL)
        if kept is not None:
            sets["last"] = [torch.tensor(kept[0]).flatten(1)]
        found[name_of(view)] = sets
    return found


def draw_real(local: LocalClient, labels: Tensor) -> list[Tensor]:
    """Draw as many real images per class as there are virtual ones, several times.

    Distances depend on the number of images, so that all sets must have equally many.
    """
    real, drawn = RealImages.of(local), []
    counts = labels.bincount().tolist()
    for number in range(DRAWS):
        generator = torch_generator(local.config.seed, "fedlgd.study", number, local.partition)
        parts = [real.draw(label, count, generator) for label, count in enumerate(counts) if count]
        drawn.append(torch.cat(parts).flatten(1))
    return drawn


def name_of(view: ClientView) -> str:
    """Name a client by its domain, if it has only one."""
    data, column = view.dataset, view.dataset.train.columns.get("domain")
    if column is not None and len(domains := np.unique(column[view.train])) == 1:
        return f"{view.partition}: {data.domains[int(domains[0])]}"
    return f"client {view.partition}"


def compare_clients(clients: Mapping[str, Sets], seed: int) -> dict[str, Any]:
    """Measure every pair of clients, and by how much distillation moves clients apart.

    A growth of 0.4 means that distances after distillation are 1.4 times those before, on average
    over the pairs.
    """
    pairs: list[dict[str, Any]] = [
        {"one": one, "other": other, **compare(clients[one], clients[other], seed)}
        for one, other in combinations(clients, 2)
    ]
    after = [kind for kind in ("initial", "last") if pairs and kind in pairs[0]]
    growth = {
        kind: {
            name: fmean(pair[kind][name] for pair in pairs)
            / fmean(pair["real"][name] for pair in pairs)
            - 1
            for name in DISTANCES
        }
        for kind in after
    }
    return {"pairs": pairs, "growth": growth}


def compare(ours: Sets, theirs: Sets, seed: int) -> dict[str, dict[str, float]]:
    """Measure the distances between two clients' images of every kind."""
    return {
        kind: {
            name: fmean(
                measure(*cut_to_equal(one, other, seed))
                for one, other in zip(ours[kind], theirs[kind], strict=True)
            )
            for name, measure in DISTANCES.items()
        }
        for kind in ours
        if kind in theirs
    }


def cut_to_equal(one: Tensor, other: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Take equally many rows of both, at random if one has more."""
    generator, size = torch_generator(seed, "fedlgd.study.rows"), min(len(one), len(other))
    ours, theirs = (
        rows[torch.randperm(len(rows), generator=generator)[:size]] for rows in (one, other)
    )
    return ours, theirs


def maximum_mean_discrepancy(one: Tensor, other: Tensor) -> float:
    """The root of the squared discrepancy under five RBF kernels."""
    return float(kernel_discrepancy(one, other).clamp(min=0).sqrt())


def sliced_wasserstein(one: Tensor, other: Tensor) -> float:
    """The mean over random directions of the distance to move one set's shadow onto the other's."""
    generator = torch_generator(0, "fedlgd.study.directions")
    directions = torch.randn(one.shape[1], DIRECTIONS, generator=generator)
    directions = directions / directions.norm(dim=0)
    ours, theirs = ((rows @ directions).sort(dim=0).values for rows in (one, other))
    return float((ours - theirs).abs().mean())


DISTANCES: dict[str, Callable[[Tensor, Tensor], float]] = {
    "mmd": maximum_mean_discrepancy,
    "wasserstein": sliced_wasserstein,
}
