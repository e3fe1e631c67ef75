"""FedCOG's generation beside local training, and its whole round beside FedAvg's."""

from typing import Any

from rich.table import Table

from experiments.bench.app import benchmark, compare_rounds, out, run_and_read
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.metrics import TIMES


@benchmark
def fedcog(
    dataset: str = "fashion-mnist",
    data_dir: str = "",
    steps: int = 400,
    generation_steps: int = 100,
    largest: int = 1024,
    rounds: int = 2,
) -> None:
    """Compare FedCOG's generation of 16 to 1,024 images with local training (its table 8).

    These times are by the clock, so use an idle machine. A whole round of ten clients is also
    compared with FedAvg's, in processor seconds of one process with one thread.

    Options:
        dataset: 28x28 or larger; Fashion-MNIST is the reference.
        data_dir: Where to look for it.
        steps: Local steps; the paper's times are for 400.
        generation_steps: Steps of the generation.
        largest: The most images that are generated; the paper goes to 1024.
        rounds: Whole rounds whose median counts; 0 leaves them out.
    """
    settings: dict[str, Any] = {"dataset": dataset, "data_dir": data_dir, "clients": 10}
    settings |= {"partition": "classes(per_client=2)", "model": "simple-cnn", "batch_size": 64}
    settings |= {"augment": "crop-flip", "lr": 0.01, "momentum": 0.9, "local_steps": steps}
    sizes = [size for size in PUBLISHED_GENERATION if size <= largest]
    training = measure_client(settings, "fedavg")["seconds"]
    brief = {**settings, "local_steps": 1}  # generation does not depend on the training before it
    title = f"one client: {generation_steps} steps of generation against {steps} local steps"
    heads = ("images", "seconds of generation", "ms per step", "of local training")
    table = Table(*heads, "of it in the paper", title=title)
    for size in sizes:
        line = f"fedcog(start=1, samples={size}, steps={generation_steps})"
        seconds = measure_client(brief, line)[f"{TIMES}generation"]
        cells = f"{seconds:.2f}", f"{1000 * seconds / generation_steps:.1f}"
        published = PUBLISHED_GENERATION[size] / PUBLISHED_TRAINING
        table.add_row(str(size), *cells, f"{seconds / training:.2f}", f"{published:.3f}")
    cells = f"{training:.2f}", f"{1000 * training / steps:.1f}"
    table.add_row("local training", *cells, "1.00", "1")
    out.print(table)
    if rounds:
        settings |= {"threads": 1, "server_threads": 1, "eval_every": rounds + 1}
        whole = f"fedcog(start=1, steps={generation_steps})"
        lines = {"FedAvg": "fedavg", "FedCOG, 256 images": whole}
        out.print(compare_rounds(settings, lines, rounds))


# The paper's seconds on a GPU, by the number of images.
PUBLISHED_GENERATION = {16: 0.72, 32: 0.78, 64: 0.79, 128: 0.8, 256: 0.81, 512: 0.83, 1024: 1.27}
PUBLISHED_TRAINING = 14.81


def measure_client(settings: dict[str, Any], methods: str) -> dict[str, float]:
    """Return what a single client reports of its second round; the first one warms up."""
    alone = {"participation": 1 / settings["clients"], "rounds": 2, "methods": methods}
    lines = run_and_read(configure({**settings, **alone}), "inprocess", actors=1)
    (reported,) = lines[-1]["clients"]
    return dict(reported)
