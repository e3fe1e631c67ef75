"""Benchmarks. Times depend on the host, so each is a ratio of two things measured in one run."""

import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from common import device
from common.settings.config import RunConfig, configure
from experiments.runtimes.simulation import simulate
from server.record.results import FILE, read

app = typer.Typer(
    help="Benchmarks of fedmirage. Times on a busy machine are noisy; the ratios are what counts.",
    no_args_is_help=True,
)
out = Console()


@app.callback()
def main() -> None:
    """Make Typer keep the names of the benchmarks, even if there is only one."""


@app.command()
def simulation(
    dataset: Annotated[
        str, typer.Option(help="28x28 or larger; Fashion-MNIST is the reference.")
    ] = "fashion-mnist",
    data_dir: Annotated[str, typer.Option(help="Where to look for it.")] = "",
    clients: Annotated[int, typer.Option(help="Clients per round.")] = 10,
    steps: Annotated[int, typer.Option(help="Steps per client.")] = 100,
    rounds: Annotated[
        int,
        typer.Option(help="Rounds whose median counts; the first one, which warms up, does not."),
    ] = 4,
) -> None:
    """Compare a simulated FedAvg round with the same steps in bare torch processes.

    The bare processes run a plain eager loop: as many processes as cores, one thread each, default
    memory format, unfused SGD.
    """
    settings = {
        "dataset": dataset,
        "data_dir": data_dir,
        "clients": clients,
        "local_steps": steps,
        "batch_size": 64,
    }
    settings |= {
        "model": "simple-cnn",
        "augment": "crop-flip",
        "lr": 0.01,
        "momentum": 0.9,
        "partition": "iid",
        "rounds": rounds + 1,
    }
    table = Table(
        "what",
        "seconds per round",
        "ratio to bare",
        title=f"{clients} clients x {steps} steps of batch 64, {device.cores()} cores",
    )
    before = time_bare(configure(settings), rounds)
    timed = {
        name: time_simulation(
            configure({**settings, "memory_format": name, "eval_every": rounds + 1}), rounds
        )
        for name in MEMORY_FORMATS
    }
    reference = statistics.median(before + time_bare(configure(settings), rounds))
    table.add_row("bare torch processes", f"{reference:.2f}", "1.00")
    for name, seconds in timed.items():
        table.add_row(f"simulated round, {name}", f"{seconds:.2f}", f"{seconds / reference:.2f}")
    out.print(table)


MEMORY_FORMATS = ("channels_last", "contiguous")


def time_simulation(config: RunConfig, rounds: int) -> float:
    """Time the median round of a simulation, from the draw of the clients to the checkpoint.

    Evaluation does not count.
    """
    return measure_round(config, "simulation", rounds)["seconds"]


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

    from common.data import load
    from common.learning.augment import AUGMENTATIONS, augment
    from common.models import build

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
    if rounds:
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


def generation_times(
    config: RunConfig, sizes: list[int], steps: int
) -> tuple[float, dict[int, float]]:
    """Return processor seconds of a client's training, and of its generation by image count."""
    from client.build import deal_data
    from client.client import FederatedClient
    from client.methods.fedcog.generation import synthesise
    from client.train import train
    from common.data.view import view
    from common.methods.fedcog import FedCog
    from common.models.base import frozen
    from common.run import make_run
    from common.wire.payload import SHARED

    chosen = device.prepare(config, 1)
    data, parts = deal_data(config)
    run, model = make_run(config, data, chosen)
    own = view(data, parts[0], 0, config.clients, 0.0, config.seed)
    with tempfile.TemporaryDirectory() as folder:
        client = FederatedClient(run, own, device.place(model, chosen, config), Path(folder))

        def time_training() -> float:
            local = client.open({SHARED: list(run.initial)}, {"round": 1, "token": "bench"})
            started = time.process_time()
            train(local, [])
            return time.process_time() - started

        def time_generation(size: int) -> float:
            local = client.open({SHARED: list(run.initial)}, {"round": 1, "token": "bench"})
            params = FedCog(samples=size, steps=steps)
            started = time.process_time()
            synthesise(params, local, frozen(model), frozen(model))
            return time.process_time() - started

        first = time_training()
        generation = {size: time_generation(size) for size in sizes}
        return statistics.median((first, time_training())), generation


def whole_rounds(settings: dict[str, Any], generation_steps: int, rounds: int) -> None:
    """Compare simulated rounds, with and without FedCOG, with training in bare torch processes."""
    common = {**settings, "rounds": rounds + 1, "eval_every": rounds + 1}
    before = time_bare(configure(common), rounds)
    lines = {
        "FedAvg": "fedavg",
        "FedCOG with 256 images": f"fedcog(start=1, steps={generation_steps})",
    }
    timed = {
        name: time_simulation(configure({**common, "methods": line}), rounds)
        for name, line in lines.items()
    }
    reference = statistics.median(before + time_bare(configure(common), rounds))
    table = Table(
        "ten clients",
        "seconds per round",
        "ratio to bare",
        title=f"{settings['local_steps']} steps, {device.cores()} cores",
    )
    table.add_row("bare torch processes, training only", f"{reference:.2f}", "1.00")
    for name, seconds in timed.items():
        table.add_row(f"simulated round, {name}", f"{seconds:.2f}", f"{seconds / reference:.2f}")
    out.print(table)


@app.command("fedmd-cg")
def fedmd_cg(
    dataset: Annotated[
        str, typer.Option(help="28x28 or larger; Fashion-MNIST is the reference.")
    ] = "fashion-mnist",
    data_dir: Annotated[str, typer.Option(help="Where to look for it.")] = "",
    rounds: Annotated[int, typer.Option(help="Rounds that are measured.")] = 3,
) -> None:
    """Compare rounds of FedMD-CG, and of methods that share less, with FedAvg's: time and bytes.

    The paper says that its round takes two to three times as long. Ten clients, 20 local steps.
    Times are processor seconds of one process with one thread, evaluation of the local models
    included, so that a busy machine hardly matters.
    """
    settings = {"dataset": dataset, "data_dir": data_dir, "clients": 10, "local_steps": 20}
    settings |= {"partition": "iid", "model": "lenet-bn", "lr": 0.05, "batch_size": 64}
    settings |= {"server_threads": 1, "local_evaluation": True, "eval_every": rounds + 1}
    table = Table("methods", "processor s per round", "of FedAvg's", "up MB", "of FedAvg's")
    first: dict[str, float] = {}
    for line in ("fedavg", "lg-fedavg", "fedmd-cg(aggregation='ave')", "fedmd-cg"):
        found = measure_processor({**settings, "methods": line}, rounds)
        first = first or found
        cells = [
            text
            for key, unit in (("seconds", 1.0), ("bytes_up", 1e6))
            for text in (f"{found[key] / unit:.2f}", f"{found[key] / first[key]:.2f}")
        ]
        table.add_row(line, *cells)
    out.print(table)


def measure_processor(settings: dict[str, Any], rounds: int) -> dict[str, float]:
    """Measure rounds in this process: processor seconds and bytes per round.

    The start, the first round and the last evaluation are in both of two runs, and cancel.
    """
    from experiments.runtimes.inprocess import run_in_process

    seconds = []
    for number in (1, rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            run_in_process(configure({**settings, "rounds": number, "out": folder}))
            seconds.append(time.process_time() - started)
            lines = [line for line in read(Path(folder) / FILE) if line["kind"] == "round"]
    return {"seconds": (seconds[1] - seconds[0]) / rounds, "bytes_up": lines[-1]["bytes_up"]}


@app.command()
def secagg(
    rounds: Annotated[
        int,
        typer.Option(help="Rounds whose median counts; the first one, which warms up, does not."),
    ] = 3,
    model: Annotated[
        str, typer.Option(help="The model; its size determines the cost.")
    ] = "simple-cnn",
    steps: Annotated[int, typer.Option(help="Local steps per client.")] = 10,
    clients: Annotated[str, typer.Option(help="Numbers of clients in the simulation.")] = "3,10,50",
    grpc: Annotated[int, typer.Option(help="Clients over gRPC; 0 leaves them out.")] = 3,
) -> None:
    """Compare rounds with and without secure aggregation: seconds, and bytes up and down."""
    settings = {
        "model": model,
        "local_steps": steps,
        "partition": "iid",
        "rounds": rounds + 1,
        "eval_every": rounds + 1,
    }
    table = Table(
        "runtime",
        "clients",
        "plain s",
        "secure s",
        "ratio",
        "up MB",
        "down MB",
        title=f"{model}, {steps} steps",
    )
    cases = [("simulation", int(count)) for count in clients.split(",") if count] + [
        ("grpc", grpc)
    ] * bool(grpc)
    for runtime, count in cases:
        plain, secure = (
            measure_round(
                configure({**settings, "clients": count, "secagg": mode}), runtime, rounds
            )
            for mode in ("off", "on")
        )
        moved = [
            f"{plain[key] / 1e6:.2f} -> {secure[key] / 1e6:.2f}"
            for key in ("bytes_up", "bytes_down")
        ]
        times = [
            f"{plain['seconds']:.2f}",
            f"{secure['seconds']:.2f}",
            f"{secure['seconds'] / plain['seconds']:.2f}",
        ]
        # printed at once, because the whole table takes minutes
        out.print(
            f"{runtime}, {count} clients: {times[0]} s plain, {times[1]} s secure", highlight=False
        )
        table.add_row(runtime, str(count), *times, *moved)
    out.print(table)


def measure_round(config: RunConfig, runtime: str, rounds: int) -> dict[str, float]:
    """Measure the median round of a run: seconds without evaluation, and bytes."""
    from experiments.runtimes.grpc import deploy

    with tempfile.TemporaryDirectory() as folder:
        placed = configure(config.flat(), {"out": folder})
        simulate(placed) if runtime == "simulation" else deploy(placed, Console(quiet=True))
        lines = [line for line in read(Path(folder) / FILE) if line["kind"] == "round"][-rounds:]
    seconds = statistics.median(
        line["seconds"]["round"] - line["seconds"]["evaluate"] for line in lines
    )
    return {
        "seconds": seconds,
        **{
            key: statistics.median(line[key] for line in lines)
            for key in ("bytes_up", "bytes_down")
        },
    }


@app.command()
def memory(
    rounds: Annotated[int, typer.Option(help="The last round; compared with the fifth.")] = 30,
    dataset: Annotated[str, typer.Option(help="The data set.")] = "digits",
) -> None:
    """Measure the resident memory of a simulation (server, actors) after round 5 and the last."""
    megabytes: dict[int, float] = {}  # by round
    with tempfile.TemporaryDirectory() as folder:
        done = threading.Event()
        watcher = threading.Thread(target=follow, args=(Path(folder), megabytes, done))
        watcher.start()
        simulate(
            configure(
                {
                    "dataset": dataset,
                    "rounds": rounds,
                    "clients": 10,
                    "local_epochs": 1,
                    "out": folder,
                }
            )
        )
        done.set()
        watcher.join()
    first, last = megabytes[5], megabytes[max(megabytes)]
    table = Table("after round", "resident MB (server and actors)")
    table.add_row("5", f"{first:.0f}")
    table.add_row(str(max(megabytes)), f"{last:.0f}")
    table.add_row("growth", f"{100 * (last / first - 1):+.1f} %")
    out.print(table)


def follow(folder: Path, megabytes: dict[int, float], done: threading.Event) -> None:
    """Note the resident memory whenever the line of a round appears."""
    while not done.wait(0.1):
        rounds = [line["round"] for line in read(folder / FILE) if line["kind"] == "round"]
        if rounds and rounds[-1] not in megabytes:
            megabytes[rounds[-1]] = measure_memory(os.getpid())


def measure_memory(parent: int) -> float:
    """Add up the megabytes of this process and of its Ray actors, without Ray's own daemons."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
                if int(entry.name) == parent or b"ray::ClientAppActor" in title:
                    total += (
                        int((entry / "statm").read_text().split()[1])
                        * os.sysconf("SC_PAGE_SIZE")
                        / 1e6
                    )
            except OSError:
                continue
    return total


if __name__ == "__main__":
    app()
