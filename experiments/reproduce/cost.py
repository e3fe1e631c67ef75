"""Estimates what runs cost on this machine, before they begin.

One training step is measured for every network, image size and batch; the rest is counted:

    training   rounds x clients per round x steps per client x a step x the factor of the methods
    testing    a third of a step per batch, because there is no backward pass
    methods    what they do beside training (EXTRAS), in steps as well

The factors say how much longer a step takes with a method; they come from counting passes, where
nothing else is said. Messages and files between processes are not counted, so that a run of many
small clients takes longer than this: about twice as long with 32 clients of 24 steps
(docs/results/dynafed.md). On a CPU, processor time is measured: a busy machine takes longer.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedmirage.common.data.catalogue.params import PictureParams
from fedmirage.common.method import Shape
from fedmirage.common.settings.config import RunConfig
from fedmirage.comparison.plan import Job
from fedmirage.comparison.runs import is_over

WALL = (time.perf_counter, 1)
START = 5.0  # seconds until the first round of a run: loading torch, data and processes
FORWARD = 1 / 3  # of a step: its backward pass takes twice as long as its forward pass
WARM, MEASURED = 2, 5  # steps before the clock starts, and steps of which the fastest counts
FACTORS = {
    "moon": 1 + 2 * FORWARD,  # two more forward passes, of the global and of the last model
    "fedsam": 2.0,  # every gradient is computed twice
    "vhl": 2.0,  # as many virtual images as real ones in every batch
    "fedprox": 1.1,  # one more term over the weights
    "scaffold": 1.1,
    "feddyn": 1.1,
    "feddecorr": 1.1,
    "fedgen": 1.5,  # generated features for the head alone
    "fedcg": 2.5,  # a generator and a discriminator learn in a second phase
    "fedmd-cg": 2.9,  # measured: docs/results/fedmd-cg.md, "How long a round takes"
}


@dataclass
class Clock:
    """Measures a step of each network once."""

    known: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def step(self, config: RunConfig) -> float:
        """Return the seconds of one training step."""
        how = (config.augment, config.optimizer, config.threads)
        key = (config.model, inputs_of(config), config.batch_size, how)
        if key not in self.known:
            self.known[key] = measure(config)
        return self.known[key]


def measure(config: RunConfig) -> float:
    """Time training steps on random images: augmentation, both passes, the optimiser's step."""
    import torch  # here, because listing tables does not need it

    from fedmirage.client.train import make_optimizer
    from fedmirage.common import device
    from fedmirage.common.learning.augment import AUGMENTATIONS, augment
    from fedmirage.common.models.factory import build

    where, (shape, classes) = device.pick(config.device), inputs_of(config)
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    model = device.place(build(config.model_params, shape, classes), where, config)
    optimiser = make_optimizer(config, list(model.parameters()), 1e-4)
    images = torch.randint(256, (config.batch_size, *shape), dtype=torch.uint8).to(where)
    if config.pictures:
        images = images.contiguous(memory_format=device.memory_format(config))
    varied, draws = AUGMENTATIONS[config.augment], torch.Generator()
    labels = torch.randint(classes, (config.batch_size,), device=where)
    # processor time does not count what other programs take of a busy machine
    clock, shared = (time.process_time, config.threads) if where.type == "cpu" else WALL
    seconds = []
    for _ in range(WARM + MEASURED):
        started = clock()
        optimiser.zero_grad()
        inputs = augment(images, varied, draws).float() / 255
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if where.type == "cuda":
            torch.cuda.synchronize(where)
        seconds.append((clock() - started) / shared)
    torch.set_num_threads(threads)
    return min(seconds[WARM:])


def inputs_of(config: RunConfig) -> tuple[Shape, int]:
    """Return the shape of an input of a run, and the number of classes, without opening any file.

    Where only the files know them, those of FLAIR are assumed.
    """
    params = config.dataset_list[0]
    card = params.about()
    shape, classes = card.shape or (3, 64, 64), card.class_count or 17
    if not isinstance(params, PictureParams):
        return shape, classes
    channels, side, _ = shape
    return (params.channels or channels, *[params.size or side] * 2), classes


def samples_of(config: RunConfig) -> tuple[int, int]:
    """Return how many training and test images the data set of a run has."""
    train = test = 0
    for params in config.dataset_list:
        to_train, to_test = params.about().samples
        if params.limit is not None:
            to_train, to_test = (
                min(to_train, params.limit),
                min(to_test, max(200, params.limit // 5)),
            )
        train, test = train + to_train, test + to_test
    return train, test


def estimate(config: RunConfig, step: float, begun: int = 0) -> float:
    """Return the seconds that one core needs for a run that takes its first rounds over."""
    rounds, per_client = config.rounds - begun, steps_of(config)
    factor = math.prod(FACTORS.get(method.name, 1.0) for method in config.method_list)
    training = rounds * config.drawn * per_client * factor * step
    tests = rounds / config.eval_every * samples_of(config)[1] / config.batch_size
    tests *= 2.0 if config.scores_local_models else 1.0
    extra = sum(
        EXTRAS[method.name](method, config, per_client)
        for method in config.method_list
        if method.name in EXTRAS
    )
    return START + training + (tests * FORWARD + extra) * step


def steps_of(config: RunConfig) -> float:
    """Return the steps of a client per round; methods that replace its data decide how many."""
    if config.local_steps:
        return config.local_steps
    samples = samples_of(config)[0] / config.clients
    for method in config.method_list:
        if method.name in ("distil", "fedlgd"):
            classes = inputs_of(config)[1]
            shared = method.global_per_class if method.name == "fedlgd" else 0  # type: ignore[attr-defined]
            samples = classes * (method.per_class + shared)  # type: ignore[attr-defined]
    return config.local_epochs * max(1, math.ceil(samples / config.batch_size))


def fedcog_steps(method: Any, config: RunConfig, per_client: float) -> float:
    """Two networks look at all images in every generation step, and gradients reach the images."""
    active = max(0, config.rounds - method.start + 1) * config.drawn
    generation = method.steps * method.samples / config.batch_size * 4 * FORWARD
    generation = generation if method.source in ("pixels", "generator") else 0.0
    return float(active * (generation + (0.0 if method.source == "none" else per_client)))


def dynafed_steps(method: Any, config: RunConfig, per_client: float) -> float:
    """Synthesis differentiates through its steps, which is three times a step; then repairs."""
    images = method.per_class * inputs_of(config)[1] / config.batch_size
    repairs = max(0, config.rounds - method.length) * method.epochs * images
    return float(3 * method.iterations * method.steps * images + repairs)


def distil_steps(method: Any, config: RunConfig, per_client: float) -> float:
    """Every step passes real images forward, and virtual ones forward and back."""
    return float(method.steps * matching_steps(method, config) * config.clients)


def fedlgd_steps(method: Any, config: RunConfig, per_client: float) -> float:
    """The initial distillation, refreshes on the clients, and gradient matching on the server."""
    times = min(method.times, config.rounds // method.gap)
    refreshes = times * config.drawn * method.refresh_steps * matching_steps(method, config)
    images = method.global_per_class * inputs_of(config)[1] / config.batch_size
    matching = 3 * (times + 1) * method.global_steps * images
    return float(distil_steps(method, config, per_client) + refreshes + matching)


def matching_steps(method: Any, config: RunConfig) -> float:
    """Return what one step of distribution matching costs, in training steps."""
    classes = inputs_of(config)[1]
    real = min(method.real_per_class, samples_of(config)[0] / config.clients / classes)
    return float(classes * (real * FORWARD + method.per_class) / config.batch_size)


EXTRAS: Mapping[str, Callable[[Any, RunConfig, float], float]] = {
    "fedcog": fedcog_steps,
    "dynafed": dynafed_steps,
    "distil": distil_steps,
    "fedlgd": fedlgd_steps,
}


def estimate_jobs(jobs: Sequence[Job], clock: Clock) -> dict[Path, float]:
    """Estimate the seconds on one core of every run that is not finished, by its folder."""
    return {
        job.folder: estimate(job.config, clock.step(job.config), job.config.rounds - job.rounds)
        for job in jobs
        if not is_over(job)
    }
