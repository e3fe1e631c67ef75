"""FedCOG's generation beside local training, and its whole round beside bare torch."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from experiments.bench.app import app, out
from experiments.bench.bare import time_bare
from experiments.bench.measure import measure_processor, time_simulation
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
    processor: Annotated[
        bool,
        typer.Option(
            help="Count the processor seconds of whole rounds in one process instead, without"
            " bare torch."
        ),
    ] = False,
) -> None:
    """Compare FedCOG's generation of 16 to 1,024 images with local training (its table 8).

    A whole round is also compared with bare torch. Single figures are seconds of processor time of
    one client with one thread. The whole round has ten clients on all cores.
    """
    settings = {
        "dataset": dataset,
        "data_dir": data_dir,
        "local_steps": steps,
        "partition": "classes(per_client=2)",
        "clients": 10,
    }
    settings |= {
        "model": "simple-cnn",
        "batch_size": 64,
        "augment": "crop-flip",
        "lr": 0.01,
        "momentum": 0.9,
    }
    sizes = [size for size in (16, 32, 64, 128, 256, 512, 1024) if size <= largest]
    training, generation = generation_times(configure(settings), sizes, generation_steps)
    title = f"one client: {generation_steps} steps of generation against {steps} local steps"
    table = Table(
        "images",
        "seconds of generation",
        "ms per step",
        "of local training",
        "of it in the paper",
        title=title,
    )
    for size, seconds in generation.items():
        share, published = seconds / training, PUBLISHED_GENERATION[size] / PUBLISHED_TRAINING
        table.add_row(
            str(size),
            f"{seconds:.2f}",
            f"{1000 * seconds / generation_steps:.1f}",
            f"{share:.2f}",
            f"{published:.3f}",
        )
    table.add_row(
        "local training", f"{training:.2f}", f"{1000 * training / steps:.1f}", "1.00", "1"
    )
    out.print(table)
    if rounds and processor:
        processor_rounds(settings, generation_steps, rounds)
    elif rounds:
        whole_rounds(settings, generation_steps, rounds)


# The paper's seconds on a GPU, by the number of images.
PUBLISHED_GENERATION = {
    16: 0.72,
    32: 0.78,
    64: 0.79,
    128: 0.80,
    256: 0.81,
    512: 0.83,
    1024: 1.27,
}
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


def compared(generation_steps: int) -> dict[str, str]:
    """The two lines of methods whose rounds are compared."""
    return {
        "FedAvg": "fedavg",
        "FedCOG with 256 images": f"fedcog(start=1, steps={generation_steps})",
    }


def processor_rounds(settings: dict[str, Any], generation_steps: int, rounds: int) -> None:
    """Compare the processor seconds of rounds after the first, with and without FedCOG."""
    common = {**settings, "threads": 1, "server_threads": 1, "eval_every": rounds + 1}
    counted = {
        name: measure_processor({**common, "methods": line}, rounds)["seconds"]
        for name, line in compared(generation_steps).items()
    }
    table = Table("ten clients in one process", "processor s per round", "ratio to FedAvg")
    for name, seconds in counted.items():
        table.add_row(name, f"{seconds:.2f}", f"{seconds / counted['FedAvg']:.2f}")
    out.print(table)


def whole_rounds(settings: dict[str, Any], generation_steps: int, rounds: int) -> None:
    """Compare simulated rounds, with and without FedCOG, with training in bare torch processes."""
    common = {**settings, "rounds": rounds + 1, "eval_every": rounds + 1}
    before = time_bare(configure(common), rounds)
    timed = {
        name: time_simulation(configure({**common, "methods": line}), rounds)
        for name, line in compared(generation_steps).items()
    }
    reference = statistics.median(before + time_bare(configure(common), rounds))
    table = Table(
        "ten clients",
        "seconds per round",
        "ratio to bare",
        "ratio to FedAvg",
        title=f"{settings['local_steps']} steps, {device.cores()} cores",
    )
    table.add_row("bare torch processes, training only", f"{reference:.2f}", "1.00", "")
    for name, seconds in timed.items():
        ratios = (f"{seconds / of:.2f}" for of in (reference, timed["FedAvg"]))
        table.add_row(f"simulated round, {name}", f"{seconds:.2f}", *ratios)
    out.print(table)
