"""Commands that show data, results and the machine, and run nothing."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedmirage.commands.console import err, out
from fedmirage.common.settings.config import configure, defaults
from fedmirage.show.words import say


def partition(
    dataset: Annotated[str, typer.Option(help="The data set.")] = defaults()["dataset"],
    partition: Annotated[str, typer.Option(help="How to divide it.")] = defaults()["partition"],
    clients: Annotated[int, typer.Option(help="The number of clients.", min=1)] = defaults()[
        "clients"
    ],
    seed: Annotated[int, typer.Option(help="The seed of the run.", min=0)] = defaults()["seed"],
    data_dir: Annotated[str, typer.Option(help="Where to look for files.")] = "",
    download: Annotated[bool, typer.Option(help="Fetch a missing set from the hub.")] = False,
    out_dir: Annotated[Path, typer.Option("--out", help="Where the pictures go.")] = Path(
        "runs/partition"
    ),
) -> None:
    """Show which client holds what: samples by client and class, their skew, pictures of both."""
    from fedmirage.common.data.loading import load
    from fedmirage.common.data.partitions.named import divide
    from fedmirage.show.partition import measure, report, show_classes, show_heterogeneity

    settings = {"dataset": dataset, "partition": partition, "clients": clients, "seed": seed}
    config = configure({**settings, "data_dir": data_dir, "download": download})
    loaded = load(config.dataset, config.data_dir or None, config.download)
    parts = divide(config, loaded)
    out.print(show_classes(loaded, parts))
    out.print(show_heterogeneity(measure(loaded, parts)))
    for path in report(loaded, parts, out_dir):
        say(out, f"picture: {path}")


def schema(
    file: Annotated[Path, typer.Argument(help="The table: a .csv or .parquet file.")],
    label: Annotated[str, typer.Option(help="The column that is to be predicted.")],
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; give it several times.")
    ] = None,
) -> None:
    """Draft the schema of a table: fedmirage schema FILE.csv --label COLUMN > schema.toml.

    Read the draft and correct it: it says which columns are numbers, categories or left out, what
    becomes of missing values, and which classes there are. All nodes get a copy of it.
    """
    from fedmirage.show.schema import draft_schema

    typer.echo(draft_schema(file, label, ignore or ()), nl=False)


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs or of comparisons, or folders that hold some."),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="The page.", show_default="report.html in the first folder"),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Export every round of every run to this CSV file.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Export the table of accuracies to this LaTeX file.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(help="Export the answer and the numbers of all plots to this JSON file."),
    ] = None,
    tsne: Annotated[
        bool, typer.Option("--tsne", help="Also map features with t-SNE; takes seconds per line.")
    ] = False,
) -> None:
    """Write one HTML page about runs and comparisons; it opens from disk, without a network.

    It has the answer, curves, differences with intervals, classes, clients and domains, virtual
    images, settings and the commands that repeat them.
    """
    from fedmirage.report.command import write_report

    files = {"csv": csv, "latex": latex, "json": json}
    written, found = write_report(folders, out_file, files, tsne)
    for sentence in found.damaged:
        say(err, f"note: {sentence}", "yellow")
    for kind, path in written.items():
        say(out, f"{kind}: {path}")


def doctor(
    data_dir: Annotated[str | None, typer.Option(help="Where to look for data sets.")] = None,
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu",
            help="Instead, run two rounds of every method on the GPU and on the CPU, in at most"
            " five minutes; ends with 1 if one differs.",
        ),
    ] = False,
) -> None:
    """Show what this machine has: device, threads, versions, ports, free memory, data sets.

    It also shows until when the certificates of a federation are valid.
    """
    if gpu:
        from fedmirage.show.gpu import try_gpu

        try_gpu(out, partial(say, out))
        return
    from fedmirage.show.doctor import doctor as examine

    examine(out, data_dir)
