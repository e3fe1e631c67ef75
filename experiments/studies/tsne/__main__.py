"""python -m experiments.studies.tsne RUN ... --out tsne.png"""

from pathlib import Path
from typing import Annotated

import torch
import typer

from experiments.studies.tsne.plots import draw, draw_domains
from fedmirage.common.errors import FedmirageError
from fedmirage.report.tsne.clouds import MARKERS
from fedmirage.report.tsne.finished import FinishedRun


def main(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of finished runs, e.g. without VHL, naive, with VHL."),
    ],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("tsne.png"),
    clients: Annotated[int, typer.Option(help="Clients per map.", min=1, max=len(MARKERS))] = 3,
    samples: Annotated[
        int, typer.Option(help="Test samples per model; half as many virtual ones.", min=4)
    ] = 300,
    seed: Annotated[int, typer.Option(help="Chooses the samples and starts t-SNE.", min=0)] = 0,
    domains: Annotated[
        bool, typer.Option("--domains", help="One map per run, in which shapes are domains.")
    ] = False,
) -> None:
    """Draw t-SNE maps of features of test samples, for global models and some clients' last models.

    Clients' models are read from RUN/memory, where a simulation leaves them. The virtual set is
    read from the run's checkpoint; its samples are ringed. Colours are classes (a virtual class has
    the colour of its partner), shapes are clients. With --domains, there is one map per run: the
    global model's features of test samples, and shapes are the domains of the data.
    """
    torch.set_num_threads(1)
    try:
        opened = [FinishedRun.open(folder) for folder in runs]
        if domains:
            draw_domains(opened, samples, seed, out)
        else:
            draw(opened, clients, samples, seed, out)
    except FedmirageError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"picture: {out}")


typer.run(main)
