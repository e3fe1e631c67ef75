"""The command line, `fedmirage`.

Every setting of the run configuration is a flag, and its help is the sentence under the field.
"""

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo
from rich.console import Console

from common.errors import FedmirageError
from common.settings.config import RunConfig, configure, defaults, key_of
from common.settings.describe import allowed
from common.settings.language import Params
from common.settings.project import project
from experiments.interrupts import interruptions
from experiments.parser import Command, Commands, RunCommand
from experiments.settings import PRESETS, find, read_preset, read_toml, settle

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
) -> None:
    """Train with the given methods and show the progress.

    Settings come from the defaults (pyproject.toml), then --preset, then --config files, then
    flags; the later ones win. DIR then holds results.jsonl (one line per round), model.safetensors
    and a checkpoint for --resume and --warm-start.
    """
    from experiments.launch import launch

    layers = [read_preset(preset)] if preset else []
    layers += [read_toml(path, "config") for path in config_file]
    config = settle(layers, settings)
    folder = Path(config.resume or config.out)
    try:
        summary = launch(config, runtime, folder, out, actors, verbose)
    except KeyboardInterrupt:
        interruptions.told = True
        raise
    if summary.get("status") != "finished":
        raise typer.Exit(1)


PANELS = {
    "methods": "What runs",
    "clients": "The federation",
    "secagg": "Privacy",
    "local_steps": "Local training",
    "device": "Numbers and speed",
    "eval_every": "Evaluation",
    "diagnostics": "What is written",
    "data_dir": "Data",
    "node_timeout": "Faults",
}  # the field at which each panel of the help begins


def _values(info: FieldInfo, default: Any) -> str:
    """Describe the values of a flag as they are typed, and its default."""
    values = "" if info.annotation in (bool, str) else allowed(info).replace("'", "") + "; "
    return f"{values}default: {'none' if default == '' else default}"


def _run_command() -> Any:
    """Make `run` with one flag per field of RunConfig.

    All flags are texts, because the configuration checks them itself, all at once.
    """
    fixed = {
        "runtime": Annotated[
            str,
            typer.Option(
                help=(
                    "inprocess (one host, no Ray), simulation (one host, Ray), grpc (a SuperLink"
                    " and SuperNodes, real processes), or auto: inprocess where the run is small,"
                    " else simulation."
                ),
                metavar="auto|inprocess|simulation|grpc",
            ),
        ],
        "preset": Annotated[
            str | None, typer.Option(help="A published setting by name, e.g. fedcog-fmnist-niid2.")
        ],
        "config": Annotated[
            list[Path], typer.Option(help="A TOML file of settings; may be given several times.")
        ],
        "actors": Annotated[
            int, typer.Option(help="Clients that train at the same time; 0 means one per core.")
        ],
        "verbose": Annotated[
            bool, typer.Option("--verbose", help="Show the messages of Flower and Ray too.")
        ],
    }
    values: dict[str, Any] = {
        "runtime": "auto",
        "preset": None,
        "config": [],
        "actors": 0,
        "verbose": False,
    }
    parameters = {name: (kind, values[name]) for name, kind in fixed.items()}
    usual, panel = defaults(), ""
    for name, info in RunConfig.model_fields.items():
        panel = PANELS.get(name, panel)
        default = usual[key_of(name)]
        shown = f"{' '.join((info.description or '').split())} \\[{_values(info, default)}]"
        if isinstance(default, bool):
            option = typer.Option(
                f"--{key_of(name)}/--no-{key_of(name)}",
                help=shown,
                show_default=False,
                rich_help_panel=panel,
            )
            parameters[name] = (Annotated[bool | None, option], None)
        else:
            kind = {int: "INTEGER", float: "NUMBER", str: "TEXT"}[type(default)]
            option = typer.Option(
                f"--{key_of(name)}",
                help=shown,
                show_default=False,
                rich_help_panel=panel,
                metavar=kind,
            )
            parameters[name] = (Annotated[str | None, option], None)

    def command(**given: Any) -> None:
        settings = {name: given[name] for name in RunConfig.model_fields if given[name] is not None}
        run(
            settings,
            given["runtime"],
            given["preset"],
            given["config"],
            given["actors"],
            given["verbose"],
        )

    keyword = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, keyword, default=value, annotation=kind)
            for name, (kind, value) in parameters.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    command.__doc__ = run.__doc__
    return command


app.command("run", epilog=EPILOG, cls=RunCommand)(_run_command())


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


@app.command(cls=Command)
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Directories of runs.")],
    picture: Annotated[
        Path | None, typer.Option(help="Draw accuracy by round into this PNG.")
    ] = None,
) -> None:
    """Compare runs: how each ended and, with --picture, its accuracy by round."""
    from experiments.show import compare as comparison

    out.print(comparison.table(runs))
    if picture is not None:
        show_path("picture", comparison.picture(runs, picture))


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
    """Start a SuperNode that runs the code installed here only.

    It takes the arguments of flower-supernode, which by itself runs whatever code a run brings, for
    example --insecure --superlink HOST:9092 --node-config 'partition-id=0'.
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
