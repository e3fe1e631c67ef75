"""A client's virtual set: made before its first round, in turns, and read in every round."""

import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

from fedmirage.client.methods.distil.cache import CacheFile
from fedmirage.client.methods.distil.matching import Matching, RealImages, match_distributions
from fedmirage.client.methods.distil.start import draw_start, explain_counts, plan_counts
from fedmirage.client.round import LocalClient
from fedmirage.common.device import place
from fedmirage.common.errors import FedmirageError
from fedmirage.common.image_grid import draw_classes
from fedmirage.common.methods.distil.declaration import Distilling
from fedmirage.common.models.factory import build
from fedmirage.common.seeds import derive, torch_generator
from fedmirage.common.wire.preparation import Preparation


def virtual_set(params: Distilling, local: LocalClient) -> Matching:
    """Read the finished virtual set of this client; `prepare_virtual_set` has made it before."""
    matching = CacheFile.of(params, local).load(local.device, local.run.memory_format)
    if matching is None or matching.step < params.steps:
        raise FedmirageError(
            f"the virtual images of {params.name} are not finished or were deleted; they are made"
            " before the next round"
        )
    return matching


def draw_virtual_set(local: LocalClient, virtual: Matching, path: Path) -> None:
    """Write a picture of all classes; one that is there already shows the same."""
    if not path.exists():
        data, shown = local.run.dataset, (virtual.images, virtual.labels)
        draw_classes(*shown, data.classes, data.mean, data.std, path, most=local.classes)


def prepare_virtual_set(params: Distilling, local: LocalClient, until: float) -> Preparation:
    """Work on the virtual set until time.monotonic() reaches `until`, and save what was done.

    However the work is cut into turns, and in whichever process a turn runs, the images are the
    same.
    """
    started = time.perf_counter()
    entry, real = CacheFile.of(params, local), RealImages.of(local)
    matching = entry.load(local.device, local.run.memory_format)
    worked = matching is None or matching.step < params.steps
    if matching is None:
        matching = begin_matching(params, local, real)
    if worked:
        draws = partial(build_extractor, local), partial(step_generator, local)
        match_distributions(matching, real, params, *draws, params.steps, until)
        entry.save(matching)
    notes = explain_counts(params, local.data.real_class_counts)
    if matching.setbacks:
        notes.append(
            f"{params.name} undid {matching.setbacks} steps whose pixels were not finite; the"
            f" learning rate of the pixels ended at {matching.lr:g}"
        )
    share = matching.step / params.steps if params.steps else 1.0
    seconds = time.perf_counter() - started if worked else 0.0
    return Preparation(share, tuple(notes), seconds)


def begin_matching(params: Distilling, local: LocalClient, real: RealImages) -> Matching:
    """Draw the first pixels."""
    counts = plan_counts(params, local.data.real_class_counts)
    if not counts.any():
        raise FedmirageError(
            f"{params.name} finds no class with min_real_per_class={params.min_real_per_class} real"
            " images on this client; give it more data, or lower min_real_per_class"
        )
    images, labels = draw_start(params, real, counts, local.config.seed, local.partition)
    return Matching.begin(images, labels, params.pixel_lr)


def build_extractor(local: LocalClient, step: int) -> nn.Module:
    """Build the run's own network afresh, with random weights for one step, and frozen."""
    run = local.run
    seed = derive(local.config.seed, "distil.extractor", local.partition, step)
    network = build(local.config.model_params, run.shape, run.classes, 0, seed)
    return place(network, local.device, local.config).eval().requires_grad_(False).features


def step_generator(local: LocalClient, step: int) -> torch.Generator:
    """Make the generator that draws the real images and the changes of one step."""
    return torch_generator(local.config.seed, "distil.step", local.partition, step)
