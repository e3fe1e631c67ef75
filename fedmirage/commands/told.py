"""A command whose docstring explains its flags, under the headings that its help has.

    Arguments:
        folder: Where it keeps everything; made if it is not there.
    Options:
        code own|any: own: only the code installed here; any: what a run brings.
        memory: Where it keeps what it remembers. [default: the current folder]

What follows a name is the word that stands for its value. What an annotation has beside the type
are the flag's names and other keywords of Typer's. A flag that Typer knows already needs no line;
every other one does.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import ParameterInfo

from fedmirage.common.settings.config import key_of

Flags = dict[str, tuple[Any, Any]]  # by name: what Typer must know, and the default
ARGUMENTS, OPTIONS = "Arguments", "Options"
HEADING = re.compile(r"^([A-Z][\w ]*):\n((?:    .*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+)(?: (\S+))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
DEFAULT = re.compile(r" \[default: (.*)\]$")


def explained(command: Callable[..., None], more: Flags | None = None) -> Callable[..., None]:
    """Make a command with the flags that its docstring explains, and with more of them.

    Typer reads them from the signature.
    """

    def carry_out(**given: Any) -> None:
        command(**given)

    flags = {**list_flags(command), **(more or {})}
    carry_out.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)
            for name, (kind, value) in flags.items()
        ]
    )
    carry_out.__annotations__ = {name: kind for name, (kind, _) in flags.items()}
    carry_out.__name__ = command.__name__
    carry_out.__doc__ = HEADING.sub("", f"{inspect.getdoc(command)}\n").strip()
    return carry_out


def list_flags(command: Callable[..., None]) -> Flags:
    """List the flags of a command that are named in its signature."""
    told, unexplained = read_entries(command), []
    hints, flags = get_type_hints(command, include_extras=True), Flags()
    for name, parameter in inspect.signature(command).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        hint, usual = hints[name], parameter.default
        if name in told:
            kind, *more = get_args(hint) if hasattr(hint, "__metadata__") else [hint]
            names = [words for words in more if isinstance(words, str)]
            # A switch that is off can only be turned on, unless its names say otherwise.
            names = names or ([f"--{key_of(name)}"] if usual is False else [])
            options = [words for words in more if isinstance(words, dict)]
            hint = Annotated[kind, make_flag(*told.pop(name), names, *options)]
        elif not any(isinstance(one, ParameterInfo) for one in getattr(hint, "__metadata__", ())):
            unexplained.append(name)
        flags[name] = (hint, usual)
    if told:
        raise TypeError(f"{command.__name__} explains {', '.join(told)}, which it does not have")
    if unexplained:
        raise TypeError(f"{command.__name__} does not explain {', '.join(unexplained)}")
    return flags


def read_entries(command: Callable[..., None]) -> dict[str, tuple[str, str, str]]:
    """Read what a docstring says of each flag: the heading, the word for its value, the text."""
    told = {}
    for panel, entries in HEADING.findall(f"{inspect.getdoc(command)}\n"):
        if left := ENTRY.sub("", entries).strip():
            raise TypeError(f"{command.__name__}: {left!r} under {panel} explains no flag")
        for name, metavar, text in ENTRY.findall(entries):
            told[name] = (panel, metavar, " ".join(text.split()))
    return told


def make_flag(
    panel: str, metavar: str, text: str, names: Sequence[str], *options: dict[str, Any]
) -> Any:
    """Make what Typer must know of a flag."""
    said: dict[str, Any] = {"help": DEFAULT.sub("", text)}
    said |= {"metavar": metavar} if metavar else {}
    if usual := DEFAULT.search(text):
        said |= {"show_default": usual[1]}
    for more in options:
        said |= more
    if panel == ARGUMENTS:
        return typer.Argument(**said)
    return typer.Option(*names, **said, rich_help_panel=None if panel == OPTIONS else panel)
