"""The command line, `fedmirage`.

Every setting of the run configuration is a flag, and its help is the sentence under the field.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from common.errors import FedmirageError
from common.settings.config import RunConfig, configure, defaults, key_of
from common.settings.language import Params
from common.settings.project import project
from experiments.flags import (
    compare_flags,
    follow_flags,
    place_flags,
    reproduce_flags,
    setting_flags,
    with_flags,
)
from experiments.follow.observers import Wanted
from experiments.interrupts import interruptions
from experiments.parser import Command, Commands, RunCommand
from experiments.settings import (
    PRESETS,
    find,
    read_layers,
    read_preset,
    report_together,
    settle,
)

EPILOG = """Examples:

fedmirage run  ·  fedmirage run --partition "dirichlet(alpha=0.1)" --clients 10 --rounds 20  ·
fedmirage run --runtime grpc  ·  fedmirage run --resume runs/one  ·
fedmirage run --warm-start runs/one@50 --rounds 70
"""

app = typer.Typer(
    name="fedmirage",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Federated learning on skewed data with virtual data: run methods, compare them, look at"
        " the data."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)


def show_path(what: str, path: Path) -> None:
    """Print a path on one line, so that it can be copied from a narrow terminal too."""
    out.print(f"{what}: {path}", highlight=False, markup=False, soft_wrap=True)


def show_page(folder: Path) -> None:
    """Write the page about a run or a comparison into its folder, and print its path."""
    from experiments.report.command import write_report

    written, _ = write_report([folder], None, {}, tsne=False)
    show_path("page", written["page"])


def show_version(asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        out.print(f"fedmirage {project()['project']['version']}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options that belong to no command."""


def run(
    settings: dict[str, Any],
    runtime: str,
    preset: str | None,
    config_file: list[Path],
    actors: int,
    verbose: bool,
    wanted: Wanted,
) -> None:
    """Train with the given methods and show the progress.

    Settings come from the defaults (pyproject.toml), then --preset, then --config files, then
    flags; the later ones win. DIR then holds results.jsonl (one line per round), model.safetensors
    and a checkpoint for --resume and --warm-start.
    """
    from experiments.launch import launch
    from experiments.show.progress import show_summary

    with report_together(wanted.find_problems()):
        config = settle(read_layers(preset, config_file), settings)
    folder = Path(config.resume or config.out)
    try:
        summary = launch(config, runtime, folder, out, actors, verbose, wanted.make(out))
    except KeyboardInterrupt:
        interruptions.told = True
        raise
    show_summary(out, summary, folder)
    if wanted.watch:
        show_page(folder)
    if summary.get("status") != "finished":
        raise typer.Exit(1)


def _run_command(**given: Any) -> None:
    settings = {name: given[name] for name in RunConfig.model_fields if given[name] is not None}
    names = ("runtime", "preset", "actors", "verbose")
    more = {name: given[name] for name in names}
    run(settings, config_file=given["config"], wanted=want(given), **more)


def want(given: Mapping[str, Any]) -> Wanted:
    """Return what the flags ask for beside the runs."""
    return Wanted(given["log"], given["watch"], given["watch_port"])


app.command("run", epilog=EPILOG, cls=RunCommand)(
    with_flags(_run_command, {**place_flags(), **follow_flags(), **setting_flags()}, run.__doc__)
)


@app.command(cls=Command)
def methods(
    name: Annotated[
        str | None, typer.Argument(help="One method, with everything that can be set.")
    ] = None,
) -> None:
    """What --methods accepts: every method, its paper, its parameters."""
    from common.methods import METHODS
    from experiments.show.catalogue import show_method, show_methods

    show_methods(out) if name is None else show_method(out, find(METHODS, name, "method"))


@app.command(cls=Command)
def models(
    name: Annotated[
        str | None, typer.Argument(help="One model, with everything that can be set.")
    ] = None,
) -> None:
    """What --model accepts: every network, its parameters, its size on the usual data."""
    from common.models import MODELS
    from experiments.show.catalogue import show_entry, show_models

    show_models(out) if name is None else show_entry(out, find(MODELS, name, "model"))


@app.command(cls=Command)
def partitions(
    name: Annotated[
        str | None, typer.Argument(help="One partition, with everything that can be set.")
    ] = None,
) -> None:
    """What --partition accepts: every way to deal the data to the clients, its parameters."""
    from common.data.partitions.params import PARTITIONS
    from experiments.show.catalogue import show_entry, show_partitions

    show_partitions(out) if name is None else show_entry(out, find(PARTITIONS, name, "partition"))


@app.command(cls=Command)
def schedules(
    name: Annotated[
        str | None, typer.Argument(help="One schedule, with everything that can be set.")
    ] = None,
) -> None:
    """What --schedule accepts: every way to change the learning rate over the rounds."""
    from common.learning.schedules import SCHEDULES
    from experiments.show.catalogue import show_entry, show_schedules

    show_schedules(out) if name is None else show_entry(out, find(SCHEDULES, name, "schedule"))


@app.command(cls=Command)
def presets(
    name: Annotated[str | None, typer.Argument(help="One preset, as its file has it.")] = None,
) -> None:
    """What --preset accepts: published settings, and what each of them sets."""
    from experiments.show.catalogue import show_presets

    if name is None:
        show_presets(out, {preset: read_preset(preset) for preset in PRESETS})
    else:
        text = find(PRESETS, name, "preset").read_text()
        out.print(text, end="", highlight=False, markup=False, soft_wrap=True)


@app.command(cls=Command)
def datasets(
    name: Annotated[
        str | None,
        typer.Argument(help="One data set, with everything that can be set; or what to draw."),
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Where to look for files.")] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw a sample of every class (and domain) of the set into this PNG."),
    ] = None,
) -> None:
    """What --dataset accepts: every data set, its parameters, and whether its files are here."""
    from common.data import DATASETS, load
    from experiments.show.catalogue import show_datasets, show_entry

    if picture is None:
        (
            show_datasets(out, data_dir)
            if name is None
            else show_entry(out, find(DATASETS, name, "dataset"))
        )
        return
    from experiments.show.samples import draw_samples  # here, because it loads matplotlib

    if name is None:
        raise FedmirageError(
            '--picture shows one set; write which: fedmirage datasets "digits" --picture FILE'
        )
    out.print(f"picture: {draw_samples(load(name, data_dir), picture)}", highlight=False)


@app.command(cls=Command)
def privacy() -> None:
    """What --secagg and --dp accept: every key, its default, its meaning."""
    from common.dp.settings import DP
    from common.secagg.settings import SECAGG
    from experiments.show.catalogue import show_entry

    settings: dict[str, Mapping[str, type[Params]]] = {"--secagg": SECAGG, "--dp": DP}
    for setting, known in settings.items():
        for params in (params for params in known.values() if params.model_fields):
            out.print(setting, style="bold", end=" ")
            show_entry(out, params)


@app.command(cls=Command)
def partition(
    dataset: Annotated[str, typer.Option(help="The data set.")] = defaults()["dataset"],
    partition: Annotated[str, typer.Option(help="How it is dealt.")] = defaults()["partition"],
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
    """Which client holds what: the clients-by-classes table, its skew, and pictures of both."""
    from common.data import load
    from common.data.partitions import split
    from experiments.show.partition import figures, report, show_classes, show_figures

    settings = {
        "dataset": dataset,
        "partition": partition,
        "clients": clients,
        "seed": seed,
        "data_dir": data_dir,
        "download": download,
    }
    config = configure(settings)
    loaded = load(config.dataset, config.data_dir or None, config.download)
    parts = split(
        config.partition_params, loaded.train, len(loaded.classes), config.clients, config.seed
    )
    out.print(show_classes(loaded, parts))
    out.print(show_figures(figures(loaded, parts)))
    for path in report(loaded, parts, out_dir):
        show_path("picture", path)


def compare(runs: list[Path], **given: Any) -> None:
    """Compare methods: run each with every seed, beside its placebo, and say what can be said.

    All of them get the same clients, initial weights and sampling. Without --methods these are
    FedAvg and the five methods with virtual data. The same command continues a comparison that was
    interrupted.

    With folders, nothing is run: the folder of a comparison is shown again, and those of runs are
    compared, with --picture by their accuracy by round.
    """
    settings = {name: given[name] for name in RunConfig.model_fields if given[name] is not None}
    files = {kind: given[kind] for kind in ("csv", "json", "latex")}
    if runs:
        from experiments.show.compare import show_folders

        names = ("seeds", "preset", "config", "log", "watch", "watch_port")
        more = [name for name in names if given[name]]
        extra = [f"--{key_of(name)}" for name in (*settings, *more)]
        show_folders(runs, given["picture"], files, extra, out)
        return
    from experiments.comparison.command import plan_comparison, present, run_comparison

    wanted = want(given)
    flags = {name: value for name, value in settings.items() if name != "methods"}
    names = ("methods", "seeds", "controls", "tune", "tune_schedules", "share_warm_up")
    with report_together(wanted.find_problems()):
        layers = read_layers(given["preset"], given["config"])
        plan = plan_comparison(layers, flags, *(given[name] for name in names))
    places = {name: given[name] for name in ("runtime", "actors", "verbose")}
    try:
        outcome = run_comparison(plan, out, **places, observers=wanted.make(out))
    except KeyboardInterrupt:
        interruptions.told = True
        raise
    present(outcome, out, files)
    if given["report"] or wanted.watch:
        show_page(outcome.folder)
    if given["picture"]:
        from experiments.show.compare import picture

        show_path("picture", picture(outcome.run_folders, given["picture"]))
    if any(standing.failed for standing in outcome.standings):
        raise typer.Exit(1)


app.command("compare", cls=RunCommand)(
    with_flags(
        compare,
        {**compare_flags(), **place_flags(), **follow_flags(), **setting_flags("methods")},
    )
)


def reproduce(**given: Any) -> None:
    """Run tables of the papers, and show ours, the paper's and the difference.

    Without a table, all are listed. With one, its cost on this machine is estimated first; the same
    command continues what was interrupted, and does not repeat finished runs.
    """
    from experiments.reproduce.dispatch import dispatch

    try:
        well = dispatch(given, out)
    except KeyboardInterrupt:
        interruptions.told = True
        raise
    if not well:
        raise typer.Exit(1)


app.command("reproduce", cls=Command)(with_flags(reproduce, reproduce_flags()))


@app.command(cls=Command)
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
        Path | None, typer.Option(help="Write the numbers of every round of every run.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Write the table of accuracies into this file.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write the answer and the numbers of all plots.")
    ] = None,
    tsne: Annotated[
        bool, typer.Option("--tsne", help="Also map features with t-SNE; takes seconds per line.")
    ] = False,
) -> None:
    """Write one HTML page about runs and comparisons, which opens from disk without a network.

    It has the answer, curves, differences with intervals, classes, clients and domains, virtual
    images, settings and the commands that repeat them.
    """
    from experiments.report.command import write_report

    files = {"csv": csv, "latex": latex, "json": json}
    written, found = write_report(folders, out_file, files, tsne)
    for sentence in found.damaged:
        text = f"note: {sentence}"
        err.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)
    for kind, path in written.items():
        show_path(kind, path)


@app.command(cls=Command)
def doctor(
    data_dir: Annotated[str | None, typer.Option(help="Where to look for data sets.")] = None,
) -> None:
    """What this machine can do: device, threads, versions, ports, free memory, data sets found.

    It also shows until when the certificates of a federation are valid.
    """
    from experiments.show.doctor import doctor as examine

    examine(out, data_dir)


@app.command(
    cls=Command, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def supernode(context: typer.Context) -> None:
    """Start a SuperNode that answers quickly, and runs the code installed here only.

    It takes the arguments of flower-supernode, which by itself runs whatever code a run brings, for
    example --insecure --superlink HOST:9092 --node-config 'partition-id=0'. Its own are --code (own
    or any), --tasks (forked: from a process that has torch loaded; fresh: a new Python per message)
    and --waiting (adaptive: short while a run is active; flower: always three seconds).
    """
    from experiments.node.supernode import start

    start(context.args)


def carry_out() -> None:
    """Do the command that was typed; errors are sentences, not stack traces. Called by entry.py."""
    try:
        app(standalone_mode=True)
    except FedmirageError as error:
        for problem in getattr(error, "problems", [str(error)]):
            err.print(f"error: {problem}", style="red", highlight=False, markup=False)
        sys.exit(1)
    except OSError as error:  # a full disk, a directory that may not be written
        err.print(f"error: {error}", style="red", highlight=False, markup=False)
        sys.exit(1)


def main() -> None:
    """Start the command line when this file is run as a program."""
    from experiments.entry import main as enter

    enter()


if __name__ == "__main__":
    main()
