"""The reference of several benchmarks: the same steps in bare torch processes."""

import multiprocessing
import time
from multiprocessing.synchronize import Barrier

from fedmirage.common import device
from fedmirage.common.settings.config import RunConfig


def time_bare(config: RunConfig, rounds: int) -> list[float]:
    """Time rounds of all clients' steps in bare processes, one per core, that start together."""
    workers = min(device.cores(), config.clients)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(workers + 1)
    processes = [
        context.Process(target=bare_worker, args=(config, barrier, worker, workers, rounds))
        for worker in range(workers)
    ]
    for process in processes:
        process.start()
    seconds = []
    for _ in range(rounds + 1):
        barrier.wait()
        started = time.perf_counter()
        barrier.wait()
        seconds.append(time.perf_counter() - started)
    for process in processes:
        process.join()
    return seconds[1:]


def bare_worker(
    config: RunConfig, barrier: Barrier, worker: int, workers: int, rounds: int
) -> None:
    """Run a plain training loop, as one would write it without a framework."""
    import torch
    import torch.nn.functional as F

    from fedmirage.common.data import load
    from fedmirage.common.learning.augment import AUGMENTATIONS, augment
    from fedmirage.common.models import build

    torch.set_num_threads(1)
    data = load(config.dataset, config.data_dir or None)
    count = len(data.train) // config.clients
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (data.mean, data.std))
    generator = torch.Generator().manual_seed(worker)
    shares = [
        (torch.from_numpy(data.train.images[k * count : (k + 1) * count].copy()), k)
        for k in range(worker, config.clients, workers)
    ]
    labels = torch.from_numpy(data.train.labels.copy())
    for _ in range(rounds + 1):
        barrier.wait()
        for images, k in shares:
            model = build(config.model, data.shape, len(data.classes))
            optimizer = torch.optim.SGD(model.parameters(), lr=config.lr, momentum=config.momentum)
            order = torch.randperm(count, generator=generator)
            for step in range(config.local_steps):
                index = order[
                    torch.arange(step * config.batch_size, (step + 1) * config.batch_size) % count
                ]
                batch = (
                    augment(images[index], AUGMENTATIONS[config.augment], generator).float() / 255
                    - mean
                ) / std
                optimizer.zero_grad()
                F.cross_entropy(model(batch.contiguous()), labels[k * count + index]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        barrier.wait()
