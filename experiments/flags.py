"""The flags of `run` and `compare`: every setting of the run configuration is one of them."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from common.settings.config import RunConfig, defaults, key_of
from common.settings.describe import allowed

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


def place_flags() -> Flags:
    """Make the flags that say where a run takes place and where its settings come from."""
    runtimes = (
        "inprocess (one host, no Ray), simulation (one host, Ray), grpc (a SuperLink and"
        " SuperNodes, real processes), or auto: inprocess where the run is small, else simulation."
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


def setting_flags(*left_out: str) -> Flags:
    """Make one flag per field of RunConfig; its help is the sentence under the field.

    All are texts, because the configuration checks them itself, all at once.
    """
    flags: Flags = {}
    usual, panel = defaults(), ""
    for name, info in RunConfig.model_fields.items():
        panel = PANELS.get(name, panel)
        default = usual[key_of(name)]
        shown = f"{' '.join((info.description or '').split())} \\[{_values(info, default)}]"
        said: dict[str, Any] = {"help": shown, "show_default": False, "rich_help_panel": panel}
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
    runs = typer.Argument(help="Directories of runs. With any, nothing is run.", show_default=False)
    methods = typer.Option(
        help="A methods line to compare; may be given several times. FedAvg is always there.",
        show_default="fedavg and the five methods with virtual data",
    )
    seeds = typer.Option(help="The seeds, e.g. 0,1,2; differences are paired over them.")
    controls = typer.Option(
        help="Run the placebo beside each method that has one: the method without what helps."
    )
    tune = typer.Option(
        help="How many learning rates every line may try (1, 1/3, 3, 1/9, ... times --lr), chosen"
        " by validation data on the first seed; 0 tries none but --lr."
    )
    schedules = typer.Option(
        help="A schedule that every line may try beside --schedule, with each of its learning"
        ' rates, e.g. "step(at=51, factor=0.2)"; may be given several times. Chosen like these.'
    )
    share = typer.Option(
        help="Take over the first rounds of a method that begins as FedAvg from FedAvg's run, which"
        " then keeps all its models."
    )
    picture = typer.Option(help="Draw accuracy by round into this PNG.")
    files = {
        "csv": typer.Option(help="Write the numbers of every run into this file."),
        "json": typer.Option(help="Write settings, numbers and intervals into this file."),
        "latex": typer.Option(help="Write the table into this file."),
    }
    return {
        "runs": (Annotated[list[Path] | None, runs], None),
        "methods": (Annotated[list[str] | None, methods], None),
        "seeds": (Annotated[str | None, seeds], None),
        "controls": (Annotated[bool, controls], True),
        "tune": (Annotated[int, tune], 0),
        "tune_schedules": (Annotated[list[str], schedules], []),
        "share_warm_up": (Annotated[bool, share], True),
        "picture": (Annotated[Path | None, picture], None),
        **{name: (Annotated[Path | None, option], None) for name, option in files.items()},
    }


def with_flags(
    work: Callable[..., None], flags: Flags, help_text: str | None = None
) -> Callable[..., None]:
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
    command.__doc__ = help_text or work.__doc__
    return command


def _values(info: FieldInfo, default: Any) -> str:
    """Describe the values of a flag as they are typed, and its default."""
    values = "" if info.annotation in (bool, str) else allowed(info).replace("'", "") + "; "
    return f"{values}default: {'none' if default == '' else default}"
