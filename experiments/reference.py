"""Writes docs/reference from declarations and docstrings: `make reference`.

tests/experiments/test_reference.py compares the committed pages with what this gives.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import fedmirage
from fedmirage.audit.attacks import ATTACKS
from fedmirage.commands.flags import PANELS
from fedmirage.common.data.catalogue.params import DATASETS, DatasetParams
from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.dp.settings import DP
from fedmirage.common.learning.schedules import SCHEDULES, Schedule
from fedmirage.common.methods import METHODS, Method
from fedmirage.common.models.params import MODELS, OwnNetwork
from fedmirage.common.secagg.settings import SECAGG
from fedmirage.common.settings.config import RunConfig, defaults, key_of
from fedmirage.common.settings.describe import describe
from fedmirage.common.settings.language import Params, write
from fedmirage.common.wire.metrics import MEANINGS
from fedmirage.server.record.format import LINES, Part
from fedmirage.show.catalogue import paragraphs, sends_in_all, summary
from fedmirage.show.prose import join_lines

FOLDER = Path(__file__).parent.parent / "docs/reference"
HEAD = "<!-- Made by `make reference`; edit the declarations and docstrings instead. -->"
CODE = re.compile(r"(`[^`]*`)")


def text(prose: str) -> str:
    """Keep stars outside of code from becoming emphasis, and join the lines."""
    pieces = CODE.split(" ".join(prose.split()))
    return "".join(
        piece if piece.startswith("`") else piece.replace("*", r"\*").replace("<", "&lt;")
        for piece in pieces
    )


def table(*rows: Iterable[str]) -> str:
    """Lay out rows as a Markdown table; the first is its head."""
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(list(rows[0])) + "|", *lines[1:]])


def keys(params: type[BaseModel], common: type[BaseModel] | None = None) -> str:
    """Show every key that goes into the parentheses, without those of `common`."""
    known = describe(common) if common else []
    cells = [
        (f"`{row.key}`", f"`{row.default}`", row.allowed, text(row.meaning))
        for row in describe(params)
        if row not in known
    ]
    if not cells:
        return "" if known else "No keys."
    return table(("Key", "Default", "Allowed", "Meaning"), *cells)


def entries(
    known: Mapping[str, type[Params]], common: type[Params] | None = None, level: str = "##"
) -> Iterator[str]:
    """Show names of the small language, each with its text and its keys; common keys come first."""
    if common:
        yield from ("All of them take these keys:", keys(common))
    for name, params in known.items():
        yield from (f"{level} `{name}`", *map(text, paragraphs(params)), keys(params, common))


def settings() -> Iterator[str]:
    """Show every setting of a run, then what can be written for those that take names."""
    yield (
        "Each setting is a flag of `fedmirage run` and `fedmirage compare` (`--local-steps 10`), a"
        " keyword in Python (`local_steps=10`), and a key in TOML files and in Flower's"
        " `--run-config` (`local-steps=10`). Defaults are in `[tool.flwr.app.config]` of"
        " `pyproject.toml`; `--preset` and `--config` files override them, and flags override both."
    )
    usual = defaults()
    rows: list[tuple[str, ...]] = []
    for row in describe(RunConfig):
        if row.key in PANELS:
            yield table(*rows) if rows else ""
            yield f"## {PANELS[row.key]}"
            rows = [("Setting", "Default", "Allowed", "Meaning")]
        key = key_of(row.key)
        rows.append((f"`{key}`", f"`{json.dumps(usual[key])}`", row.allowed, text(row.meaning)))
    yield table(*rows)
    yield "## What `schedule` accepts"
    yield from entries(SCHEDULES, Schedule, "###")
    for setting, known in (("secagg", SECAGG), ("dp", DP)):
        yield f"## What `{setting}` accepts"
        yield from entries(known, level="###")


def methods() -> Iterator[str]:
    """Show every method: its declaration, what its clients send and report, its keys."""
    yield (
        'Several names in one line are joined by commas, `--methods "scaffold, fedcog(start=20)"`:'
        " each wraps those to its left. [The guide](../methods.md) says how they combine."
    )
    ours = {name: METHODS[name] for name in METHODS.ours}  # not those that happen to be installed
    yield table(
        ("Method", "What it does", "Paper"),
        *(
            (f"[`{name}`](#{name})", text(summary(kind)), kind.authors)
            for name, kind in ours.items()
        ),
    )
    for name, kind in ours.items():
        yield f"## `{name}`"
        yield from declaration(kind)
        yield keys(kind)


def declaration(kind: type[Method]) -> Iterator[str]:
    """Show the text of a method's module, and what follows from its declaration."""
    module = inspect.getmodule(kind)
    for piece in inspect.cleandoc((module.__doc__ if module else "") or "").split("\n\n"):
        lines = [
            "- **{}**: {}".format(*map(text, re.split(r"\s{2,}", f"{line.strip()}  ", maxsplit=1)))
            if line.startswith(" ")
            else f"{text(line)}\n"
            for line in join_lines(piece)
        ]
        yield "\n".join(lines).strip()
    sent, allowed = sends_in_all(kind)
    facts = {
        "Paper": f"[{kind.title}]({kind.link})" if kind.link else "",
        "Clients send": sent,
        "Secure aggregation": " / ".join(dict.fromkeys(allowed)),
        "Placebo": f"`{write(kind.model_validate(kind.placebo))}`" if kind.placebo else "",
        "Reports": ", ".join(f"`{name}`" for name in (*kind.metrics, *kind.diagnostics)),
    }
    yield "\n".join(f"- {name}: {told}" for name, told in facts.items() if told)


def results() -> Iterator[str]:
    """Show every kind of line of results.jsonl, the objects inside them, and metrics by name."""
    yield (
        "`results.jsonl` in the folder of a run has one JSON object per line, flushed after every"
        " round. `kind` says what a line is. Keys with a question mark may be missing. Numbers that"
        " are not finite are null. Accuracies are shares between 0 and 1, times are in seconds."
    )
    inner = dict.fromkeys(
        part
        for line in LINES
        for info in line.model_fields.values()
        for part in find_parts(info.annotation)
    )
    for part in dict.fromkeys((*LINES, *inner)):
        yield f"## {heading(part)}"
        yield from paragraphs(part)
        told = [(key, info) for key, info in part.model_fields.items() if info.description]
        yield table(("Key", "What it holds"), *starmap(row_of, told))
    yield "## Metrics by name"
    yield "`*` stands for any name. A method's own metrics are called METHOD.NAME; it lists them."
    rows = ((f"`{name}`", text(told)) for name, told in MEANINGS.items())
    yield table(("Name", "What it is"), *rows)


def heading(part: type[BaseModel]) -> str:
    """Name the section of an object."""
    kind = part.model_fields.get("kind")
    return f"A line of kind `{get_args(kind.annotation)[0]}`" if kind else part.__name__


def row_of(key: str, info: FieldInfo) -> tuple[str, str]:
    """Show one key; an object links to its own table."""
    names = [heading(part) for part in find_parts(info.annotation)]
    links = [f"[{name}](#{name.lower().replace('`', '').replace(' ', '-')})" for name in names]
    told = " ".join([*(info.description or "").split(), *links])
    return f"`{key}`" + ("" if info.is_required() else " ?"), told


def find_parts(annotation: Any) -> list[type[Part]]:
    """Find the objects of a line in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return [annotation]
    return [part for inner in get_args(annotation) for part in find_parts(inner)]


def python() -> Iterator[str]:
    """Show what `import fedmirage` offers: signatures, docstrings and members."""
    yield inspect.cleandoc(fedmirage.__doc__ or "")
    for name in (name for name in fedmirage.__all__ if not name.startswith("_")):
        thing = getattr(fedmirage, name)
        yield f"## `{name}`"
        if inspect.isfunction(thing):
            declared = inspect.getsource(thing).partition(':\n    """')[0]
            yield f"```python\n{declared}\n```"
        yield from map(text, inspect.cleandoc(thing.__doc__ or "").split("\n\n"))
        if inspect.isclass(thing) and not issubclass(thing, BaseModel):
            rows = list(members(thing))
            yield table(("Member", "What it is"), *rows) if rows else ""


def members(kind: type) -> Iterator[tuple[str, str]]:
    """List the public attributes and methods of a class, each with its docstring."""
    for name, member in vars(kind).items():
        call = ""
        if inspect.isfunction(member):
            _, *given = inspect.signature(member).parameters.values()
            call = f"({', '.join(str(one.replace(annotation=one.empty)) for one in given)})"
        elif not isinstance(member, property | cached_property):
            continue
        if not name.startswith("_"):
            yield f"`{name}{call}`", text(member.__doc__ or "")


def models() -> Iterator[str]:
    """Show every network, and how somebody's own is named."""
    yield (
        "Besides these, `model` takes any network that Python can import,"
        " `mylab.nets:TinyViT(width=64)`; [own-network.md](../own-network.md) shows how."
    )
    yield from entries({**MODELS, "module:attribute": OwnNetwork})


def attacks() -> Iterator[str]:
    """Show every attack of an audit, and what its run is like unless somebody says otherwise."""
    yield (
        "What `fedmirage audit --attack` accepts, several names separated by commas, or `all`;"
        " [audit.md](../audit.md) says what they find."
    )
    for name, kind in ATTACKS.items():
        yield from entries({name: kind})
        if usual := ", ".join(f"{key_of(key)} {value}" for key, value in kind.settings.items()):
            yield f"Its run has, unless you say otherwise: {usual}."


PAGES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "settings": ("Settings", settings),
    "methods": ("Methods", methods),
    "partitions": ("Partitions", lambda: entries(PARTITIONS)),
    "models": ("Models", models),
    "datasets": ("Data sets", lambda: entries(DATASETS, DatasetParams)),
    "attacks": ("Attacks", attacks),
    "results": ("results.jsonl", results),
    "python": ("Python: `import fedmirage`", python),
}


def pages() -> dict[str, str]:
    """Make every page, by the name of its file."""
    return {
        f"{name}.md": "\n\n".join([HEAD, f"# {title}", *filter(None, body())]) + "\n"
        for name, (title, body) in PAGES.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in pages().items():
        (FOLDER / name).write_text(content)
