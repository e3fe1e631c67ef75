"""FedCOG's generation beside local training, and its whole round beside FedAvg's."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from experiments.bench.app import app, out
from experiments.bench.measure import measure_processor
from fedmirage.common import device
from fedmirage.common.settings.config import RunConfig, configure


@app.command()
def fedcog(
    dataset: Annotated[
        str, typer.Option(help="28x28 or larger; Fashion-MNIST is the reference.")
    ] = "fashion-mnist",
    data_dir: Annotated[str, typer.Option(help="Where to look for it.")] = "",
    steps: Annotated[int, typer.Option(help="Local steps; the paper's times are for 400.")] = 400,
    generation_steps: Annotated[int, typer.Option(help="Steps of the generation.")] = 100,
    largest: Annotated[
        int, typer.Option(help="The most images that are generated; the paper goes to 1024.")
    ] = 1024,
    rounds: Annotated[
        int, typer.Option(help="Whole rounds whose median counts; 0 leaves them out.")
    ] = 2,
) -> None:
    """Compare FedCOG's generation of 16 to 1,024 images with local training (its table 8).

    A whole round of ten clients is also compared with FedAvg's. All figures are processor seconds
    of one process with one thread.
    """
    settings = {"dataset": dataset, "data_dir": data_dir, "local_steps": steps, "clients": 10}
    settings |= {"partition": "classes(per_client=2)", "model": "simple-cnn", "batch_size": 64}
    settings |= {"augment": "crop-flip", "lr": 0.01, "momentum": 0.9}
    sizes = [size for size in PUBLISHED_GENERATION if size <= largest]
    training, generation = generation_times(configure(settings), sizes, generation_steps)
    title = f"one client: {generation_steps} steps of generation against {steps} local steps"
    heads = ("images", "seconds of generation", "ms per step", "of local training")
    table = Table(*heads, "of it in the paper", title=title)
    for size, seconds in generation.items():
        cells = f"{seconds:.2f}", f"{1000 * seconds / generation_steps:.1f}"
        published = PUBLISHED_GENERATION[size] / PUBLISHED_TRAINING
        table.add_row(str(size), *cells, f"{seconds / training:.2f}", f"{published:.3f}")
    cells = f"{training:.2f}", f"{1000 * training / steps:.1f}"
    table.add_row("local training", *cells, "1.00", "1")
    out.print(table)
    if rounds:
        whole_rounds(settings, generation_steps, rounds)


# The paper's seconds on a GPU, by the number of images.
PUBLISHED_GENERATION = {16: 0.72, 32: 0.78, 64: 0.79, 128: 0.8, 256: 0.81, 512: 0.83, 1024: 1.27}
PUBLISHED_TRAINING = 14.81
TOKEN = "0" * 16  # the name of a run that no server has started


def generation_times(
    config: RunConfig, sizes: list[int], steps: int
) -> tuple[float, dict[int, float]]:
    """Return processor seconds of a client's training, and of its generation by image count."""
    from fedmirage.client.build import deal_data
    from fedmirage.client.client import FederatedClient
    from fedmirage.client.methods.fedcog.generation import synthesise
    from fedmirage.client.train import train
    from fedmirage.common.data.view import view
    from fedmirage.common.methods.fedcog import FedCog
    from fedmirage.common.models.base import frozen
    from fedmirage.common.run import make_run
    from fedmirage.common.wire.payload import SHARED

    chosen = device.prepare(config, 1)
    data, parts = deal_data(config)
    run, model = make_run(config, data, chosen)
    own = view(data, parts[0], 0, config.clients, 0.0, config.seed)
    with tempfile.TemporaryDirectory() as folder:
        client = FederatedClient(run, own, device.place(model, chosen, config), Path(folder))

        def time_training() -> float:
            local = client.open({SHARED: list(run.initial)}, {"round": 1, "token": TOKEN})
            started = time.process_time()
            train(local, [])
            return time.process_time() - started

        def time_generation(size: int) -> float:
            local = client.open({SHARED: list(run.initial)}, {"round": 1, "token": TOKEN})
            params = FedCog(samples=size, steps=steps)
            started = time.process_time()
            synthesise(params, local, frozen(model), frozen(model))
            return time.process_time() - started

        first = time_training()
        generation = {size: time_generation(size) for size in sizes}
        return statistics.median((first, time_training())), generation


def whole_rounds(settings: dict[str, Any], generation_steps: int, rounds: int) -> None:
    """Compare the processor seconds of rounds after the first, with and without FedCOG."""
    common = {**settings, "threads": 1, "server_threads": 1, "eval_every": rounds + 1}
    lines = {"FedAvg": "fedavg", "FedCOG, 256 images": f"fedcog(start=1, steps={generation_steps})"}
    table = Table("ten clients in one process", "processor s per round", "ratio to FedAvg")
    first = 0.0
    for name, line in lines.items():
        seconds = measure_processor({**common, "methods": line}, rounds)["seconds"]
        first = first or seconds
        table.add_row(name, f"{seconds:.2f}", f"{seconds / first:.2f}")
    out.print(table)
