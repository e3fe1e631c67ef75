"""The flags of `run` and `compare`: every setting of the run configuration is one of them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from fedmirage.common.settings.config import RunConfig, defaults, key_of
from fedmirage.common.settings.describe import allowed
from fedmirage.follow.logger import list_loggers

Flags = dict[str, tuple[Any, Any]]  # by name: what Typer must know, and the default
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
KINDS = ("CSV", "JSON")


def place_flags() -> Flags:
    """Make the flags that say where a run takes place and where its settings come from."""
    runtimes = (
        "inprocess (one host, no Ray), simulation (one host, Ray), grpc (a SuperLink and"
        " SuperNodes, real processes), or auto: inprocess on the CPU, simulation on GPUs."
    )
    runtime = typer.Option(help=runtimes, metavar="auto|inprocess|simulation|grpc")
    preset = typer.Option(help="A published setting by name, e.g. fedcog-fmnist-niid2.")
    config = typer.Option(help="A TOML file of settings; may be given several times.")
    actors = typer.Option(help="Clients that train at the same time; 0 means one per core.")
    verbose = typer.Option("--verbose", help="Show the messages of Flower and Ray too.")
    return {
        "runtime": (Annotated[str, runtime], "auto"),
        "preset": (Annotated[str | None, preset], None),
        "config": (Annotated[list[Path], config], []),
        "actors": (Annotated[int, actors], 0),
        "verbose": (Annotated[bool, verbose], False),
    }


def follow_flags() -> Flags:
    """Make the flags for what follows runs while they are under way."""
    log = typer.Option(
        help=f"Also log every run: {', '.join(list_loggers())}; may be given several times."
    )
    watch = typer.Option(
        "--watch", help="Serve the report page on this machine until the command ends."
    )
    port = typer.Option(help="The port of the page that --watch serves; 0 picks a free one.")
    return {
        "log": (Annotated[list[str], log], []),
        "watch": (Annotated[bool, watch], False),
        "watch_port": (Annotated[int, port], 0),
    }


def setting_flags(*left_out: str, **told: str) -> Flags:
    """Make one flag per field of RunConfig; its help is the sentence under the field, or as `told`.

    A flag that is told as "" is not listed. All are texts, because the configuration checks them
    itself, all at once.
    """
    flags: Flags = {}
    usual, panel = defaults(), ""
    for name, info in RunConfig.model_fields.items():
        panel = PANELS.get(name, panel)
        default = usual[key_of(name)]
        meaning = told.get(name) or " ".join((info.description or "").split())
        shown = f"{meaning} \\[{_values(info, default)}]"
        said: dict[str, Any] = {"help": shown, "show_default": False, "rich_help_panel": panel}
        said["hidden"] = told.get(name) == ""
        if isinstance(default, bool):
            option = typer.Option(f"--{key_of(name)}/--no-{key_of(name)}", **said)
            flags[name] = (Annotated[bool | None, option], None)
        else:
            kind = {int: "INTEGER", float: "NUMBER", str: "TEXT"}[type(default)]
            option = typer.Option(f"--{key_of(name)}", metavar=kind, **said)
            flags[name] = (Annotated[str | None, option], None)
    return {name: flag for name, flag in flags.items() if name not in left_out}


def compare_flags() -> Flags:
    """Make the flags that only a comparison has."""
    runs = typer.Argument(
        help="The folder of a comparison, or the folders of runs.", show_default=False
    )
    methods = typer.Option(
        help="A methods line to compare; may be given several times. FedAvg is always there.",
        show_default="fedavg and the five methods with virtual data",
    )
    seeds = typer.Option(
        help="The seeds, e.g. 0,1,2; differences are paired over them.", show_default="0"
    )
    controls = typer.Option(
        help="Run a placebo beside each method that has one: the same method without what is"
        " supposed to help."
    )
    tune = typer.Option(
        help="How many learning rates every line may try (1, 1/3, 3, 1/9, ... times --lr), chosen"
        " by validation data on the first seed; 0 keeps --lr."
    )
    schedules = typer.Option(
        help="A schedule that every line may try besides --schedule, with each of its learning"
        ' rates, e.g. "step(at=51, factor=0.2)"; may be given several times.'
    )
    share = typer.Option(
        help="Run the rounds that a method shares with FedAvg only once; FedAvg's run then keeps"
        " all its models."
    )
    picture = typer.Option(help="Draw accuracy by round into this PNG.")
    page = typer.Option(help="Write report.html, a page about the comparison, into its folder.")
    files = {
        "csv": typer.Option(help="Export the numbers of every run to this CSV file."),
        "json": typer.Option(help="Export settings, numbers and intervals to this JSON file."),
        "latex": typer.Option(help="Export the table to this LaTeX file."),
    }
    return {
        "runs": (Annotated[list[Path] | None, runs], None),
        "methods": (Annotated[list[str] | None, methods], None),
        "seeds": (Annotated[str | None, seeds], None),
        "controls": (Annotated[bool, controls], True),
        "tune": (Annotated[int, tune], 0),
        "tune_schedules": (Annotated[list[str], schedules], []),
        "share_warm_up": (Annotated[bool, share], True),
        "report": (Annotated[bool, page], True),
        "picture": (Annotated[Path | None, picture], None),
        **{name: (Annotated[Path | None, option], None) for name, option in files.items()},
    }


def reproduce_flags() -> Flags:
    """Make the flags that choose cells of the papers' tables, and what to do with them."""
    table = typer.Argument(help="A table, e.g. fedcog/table1; without one, lists all.")
    row = typer.Option(help="A row by its name; may be given several times. Default: all rows.")
    column = typer.Option(help="A column by its name; may be given several times. Default: all.")
    scale = typer.Option(
        help="small: few rounds, on a laptop, not comparable with the paper; paper: as published.",
        metavar="small|paper",
    )
    seeds = typer.Option(help="The seeds, e.g. 0,1,2.")
    out = typer.Option(
        help="Folder of the runs; with the same one, finished runs are not repeated."
    )
    estimate = typer.Option("--estimate", help="Only estimate what it would cost on this machine.")
    data_dir = typer.Option(help="Where to look for data sets.")
    download = typer.Option("--download", help="Fetch missing data sets from the hub.")
    queue = typer.Option(help="Do the jobs of this TOML file, at low priority.")
    status = typer.Option("--status", help="With --queue: show what is left, and run nothing.")
    record = typer.Option(help="Keep a finished run as docs/results/runs/NAME.", metavar="DIR NAME")
    pages = typer.Option("--tables", help="Make the tables and pictures of docs/results anew.")
    results = typer.Option(help="The folder that --record and --tables write into.")
    csv, json = (typer.Option(help=f"Export the numbers to this {kind} file.") for kind in KINDS)
    places = place_flags()
    return {
        "table": (Annotated[str | None, table], None),
        "row": (Annotated[list[str] | None, row], None),
        "column": (Annotated[list[str] | None, column], None),
        "scale": (Annotated[str, scale], "small"),
        "seeds": (Annotated[str, seeds], "0"),
        "out": (Annotated[Path | None, out], None),
        "estimate": (Annotated[bool, estimate], False),
        "csv": (Annotated[Path | None, csv], None),
        "json": (Annotated[Path | None, json], None),
        "data_dir": (Annotated[str | None, data_dir], None),
        "download": (Annotated[bool, download], False),
        **{name: places[name] for name in ("runtime", "actors", "verbose")},
        "queue": (Annotated[Path | None, queue], None),
        "status": (Annotated[bool, status], False),
        "record": (Annotated[tuple[Path, str] | None, record], None),
        "tables": (Annotated[bool, pages], False),
        "results": (Annotated[Path, results], Path("docs", "results")),
    }


def with_flags(work: Callable[..., None], flags: Flags) -> Callable[..., None]:
    """Give a function the flags as its signature, from which Typer makes a command."""

    def command(**given: Any) -> None:
        work(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, keyword, default=value, annotation=kind)
            for name, (kind, value) in flags.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in flags.items()}
    command.__doc__ = work.__doc__
    return command


def _values(info: FieldInfo, default: Any) -> str:
    """Describe the values of a flag as they are typed, and its default."""
    values = "" if info.annotation in (bool, str) else allowed(info).replace("'", "") + "; "
    return f"{values}default: {'none' if default == '' else default}"
