"""Commands that show data, results and the machine, and run nothing."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedmirage.commands.console import err, out
from fedmirage.common.settings.config import configure, defaults
from fedmirage.show.words import say

USUAL = defaults()


def partition(
    dataset: str = USUAL["dataset"],
    partition: str = USUAL["partition"],
    clients: Annotated[int, {"min": 1}] = USUAL["clients"],
    seed: Annotated[int, {"min": 0}] = USUAL["seed"],
    data_dir: str = "",
    download: Annotated[bool, "--download/--no-download"] = False,
    out_dir: Annotated[Path, "--out"] = Path("runs/partition"),
) -> None:
    """Show which client holds what: samples by client and class, their skew, pictures of both.

    Options:
        dataset: The data set.
        partition: How to divide it.
        clients: The number of clients.
        seed: The seed of the run.
        data_dir: Where to look for files.
        download: Fetch a missing set from the hub.
        out_dir: Where the pictures go.
    """
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


def schema(file: Path, label: Annotated[str, "--label"], ignore: list[str] | None = None) -> None:
    """Draft the schema of a table: fedmirage schema FILE.csv --label COLUMN > schema.toml.

    Read the draft and correct it: it says which columns are numbers, categories or left out, what
    becomes of missing values, and which classes there are. All nodes get a copy of it.

    Arguments:
        file: The table: a .csv or .parquet file.
    Options:
        label: The column that is to be predicted.
        ignore: A column to leave out; give it several times.
    """
    from fedmirage.show.schema import draft_schema

    typer.echo(draft_schema(file, label, ignore or ()), nl=False)


def report(
    folders: list[Path],
    out_file: Annotated[Path | None, "--out"] = None,
    csv: Path | None = None,
    latex: Path | None = None,
    json: Path | None = None,
    tsne: bool = False,
) -> None:
    """Write one HTML page about runs and comparisons; it opens from disk, without a network.

    It has the answer, curves, differences with intervals, classes, clients and domains, virtual
    images, settings and the commands that repeat them.

    Arguments:
        folders: Folders of runs or of comparisons, or folders that hold some.
    Options:
        out_file: The page. [default: report.html in the first folder]
        csv: Export every round of every run to this CSV file.
        latex: Export the table of accuracies to this LaTeX file.
        json: Export the answer and the numbers of all plots to this JSON file.
        tsne: Also map features with t-SNE; takes seconds per line.
    """
    from fedmirage.report.command import write_report

    files = {"csv": csv, "latex": latex, "json": json}
    written, found = write_report(folders, out_file, files, tsne)
    for sentence in found.damaged:
        say(err, f"note: {sentence}", "yellow")
    for kind, path in written.items():
        say(out, f"{kind}: {path}")


def doctor(data_dir: str | None = None, gpu: bool = False) -> None:
    """Show what this machine has: device, threads, versions, ports, free memory, data sets.

    It also shows until when the certificates of a federation are valid.

    Options:
        data_dir: Where to look for data sets.
        gpu: Instead, run two rounds of every method on the GPU and on the CPU, in at most five
            minutes; ends with 1 if one differs.
    """
    if gpu:
        from fedmirage.show.gpu import try_gpu

        try_gpu(out, partial(say, out))
        return
    from fedmirage.show.doctor import doctor as examine

    examine(out, data_dir)
