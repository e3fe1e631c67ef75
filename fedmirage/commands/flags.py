"""The flags of `run` and `compare`: every setting of the run configuration is one of them."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from fedmirage.commands.told import Flags, list_flags
from fedmirage.common.settings.config import RunConfig, defaults, key_of
from fedmirage.common.settings.describe import allowed
from fedmirage.follow.logger import list_loggers

PLACES = ("runtime", "actors", "verbose", "ray_address")  # of these flags, those that say where
KINDS = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
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


def flag(kind: Any, default: Any, text: str, *names: str, **more: Any) -> tuple[Any, Any]:
    """Make one flag."""
    return Annotated[kind, typer.Option(*names, help=text, **more)], default


def place(
    runtime: str = "auto",
    ray_address: str | None = None,
    preset: str | None = None,
    config: list[Path] | None = None,
    actors: int = 0,
    verbose: bool = False,
) -> None:
    """Say where a run takes place and where its settings come from.

    Options:
        runtime auto|inprocess|simulation|grpc: inprocess (one host, no Ray), simulation (one host,
            Ray), grpc (a SuperLink and SuperNodes, real processes), or auto: inprocess on the CPU,
            simulation on GPUs.
        ray_address auto|HOST:PORT: Use the Ray cluster that runs there, instead of this host alone;
            auto is the one of which this host is a part. Default: the variable RAY_ADDRESS, or
            none.
        preset: A published setting by name, e.g. fedcog-fmnist-niid2.
        config: A TOML file of settings; may be given several times.
        actors: Clients that train at the same time; 0 means one per core.
        verbose: Show the messages of Flower and Ray too.
    """


def follow_flags() -> Flags:
    """Make the flags for what follows runs while they are under way."""
    log = f"Also log every run: {', '.join(list_loggers())}; may be given several times."
    watch = "Serve the report page on this machine until the command ends."
    return {
        "log": flag(list[str], [], log),
        "watch": flag(bool, False, watch, "--watch"),
        "watch_port": flag(int, 0, "The port of the page that --watch serves; 0 picks a free one."),
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
            kind = "NUMBER" if name == "lr" else KINDS[type(default)]
            option = typer.Option(f"--{key_of(name)}", metavar=kind, **said)
            flags[name] = (Annotated[str | None, option], None)
    return {name: flag for name, flag in flags.items() if name not in left_out}


def reproduce_flags() -> Flags:
    """Make the flags that choose cells of the papers' tables, and what to do with them."""
    table = typer.Argument(help="A table, e.g. fedcog/table1; without one, lists all.")
    row = "A row by its name; may be given several times. Default: all rows."
    scale = "small: few rounds, on a laptop, not comparable with the paper; paper: as published."
    out = "Folder of the runs; with the same one, finished runs are not repeated."
    estimate = "Only estimate what it would cost on this machine."
    status = "With --queue: show what is left, and run nothing."
    pages = "Make the tables and pictures of docs/results anew."
    record = "Keep a finished run as docs/results/runs/NAME."
    results = "The folder that --record and --tables write into."
    places = list_flags(place)
    return {
        "table": (Annotated[str | None, table], None),
        "row": flag(list[str] | None, None, row),
        "column": flag(list[str] | None, None, "A column by its name; may be given several times."),
        "scale": flag(str, "small", scale, metavar="small|paper"),
        "seeds": flag(str, "0", "The seeds, e.g. 0,1,2 or 0..9."),
        "out": flag(Path | None, None, out),
        "estimate": flag(bool, False, estimate, "--estimate"),
        "csv": flag(Path | None, None, "Write the numbers into this CSV file."),
        "json": flag(Path | None, None, "Write the numbers into this JSON file."),
        "data_dir": flag(str | None, None, "Where to look for data sets."),
        "download": flag(bool, False, "Fetch missing data sets from the hub.", "--download"),
        **{name: places[name] for name in PLACES},
        "queue": flag(Path | None, None, "Do the jobs of this TOML file, at low priority."),
        "status": flag(bool, False, status, "--status"),
        "record": flag(tuple[Path, str] | None, None, record, metavar="DIR NAME"),
        "tables": flag(bool, False, pages, "--tables"),
        "results": flag(Path, Path("docs", "results"), results),
    }


def _values(info: FieldInfo, default: Any) -> str:
    """Describe the values of a flag as they are typed, and its default."""
    values = "" if info.annotation in (bool, str) else allowed(info).replace("'", "") + "; "
    return f"{values}default: {'none' if default == '' else default}"
