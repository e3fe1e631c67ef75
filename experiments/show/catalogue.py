"""What there is: methods, models, data sets, each parameter with its default and its meaning,
straight from the code."""

import inspect
from typing import get_args

from rich.console import Console
from rich.table import Table

from common.method import describe as describe_parts
from common.methods import METHODS, Method
from common.models import MODELS, build
from common.secagg.settings import why_not
from common.settings.describe import describe
from common.settings.language import Params


def table(title: str, *columns: str) -> Table:
    """A table whose last column takes the room."""
    made = Table(title=title, title_justify="left", show_lines=False)
    for column in columns:
        made.add_column(column, overflow="fold", ratio=1 if column == columns[-1] else None)
    return made


def security_table() -> str:
    """README's table of what goes with secure aggregation, as markdown: a row a method, and a row a
    variant where they differ."""
    rows = [
        "| Method | Sent up beside the model | Plain | Secure aggregation |",
        "|---|---|---|---|",
    ]
    for kind in METHODS.values():
        told = {line: sends(method) for line, method in variants(kind).items()}
        if len(set(told.values())) == 1:
            told = {kind.name: next(iter(told.values()))}
        rows += [f"| `{line}` | {up} | yes | {secure} |" for line, (up, secure) in told.items()]
    return "\n".join(rows)


def variants(kind: type[Method]) -> dict[str, Method]:
    """A method as it is written with each of its variants; where a parameter has no default,
    without any."""
    field = kind.model_fields.get("variant")
    names = [name for name in get_args(field.annotation) if isinstance(name, str)] if field else []
    names = names or [
        name for part in (get_args(field.annotation) if field else ()) for name in get_args(part)
    ]
    if not names:
        return {kind.name: kind.model_construct()}
    return {
        f"{kind.name}(variant='{name}')": kind.model_validate({"variant": name}) for name in names
    }


def sends(method: Method) -> tuple[str, str]:
    """What clients send beside `shared`, and whether a sum of it is enough."""
    if not method.parts.sends:
        return "nothing is sent at all", "yes"
    up = ", ".join(f"{section.name}" for section in method.up) or "nothing"
    reason = why_not(method)
    return up, "yes" if reason is None else f"no: {reason}"


def show_methods(console: Console) -> None:
    """One line a method."""
    made = table("methods", "name", "paper", "shares", "secagg", "parameters")
    for method in METHODS.values():
        allowed = [sends(made_up)[1] for made_up in variants(method).values()]
        shown = "yes" if set(allowed) == {"yes"} else "some variants" if "yes" in allowed else "no"
        made.add_row(method.name, method.authors, describe_parts(method.parts), shown, keys(method))
    console.print(made)
    console.print(
        "fedmirage methods NAME explains one; several are joined by commas, left to right is inside"
        " out.",
        highlight=False,
    )


def show_method(console: Console, method: type[Method]) -> None:
    """A method's page: its module's text, then its parameters."""
    module = inspect.getmodule(method)
    console.print((module.__doc__ if module else "") or "", highlight=False, markup=False)
    console.print(
        f"{method.title}\n{method.authors}\n{method.link}\n", highlight=False, markup=False
    )
    show_parameters(console, method)


def show_entry(console: Console, params: type[Params]) -> None:
    """A model or a data set."""
    console.print(
        f"{params.name}: {inspect.cleandoc(params.__doc__ or '')}\n", highlight=False, markup=False
    )
    show_parameters(console, params)


def show_parameters(console: Console, params: type[Params]) -> None:
    """Every key that may stand between the parentheses."""
    rows = describe(params)
    if not rows:
        console.print(f"{params.name} takes no parameters.", highlight=False)
        return
    made = table(f"{params.name}(...)", "key", "default", "meaning")
    for key, default, meaning in rows:
        made.add_row(key, default, " ".join(meaning.split()))
    console.print(made)


def show_models(console: Console) -> None:
    """One line a model, with its number of weights for the two usual shapes and ten classes."""
    made = table("models", "name", "28x28 grey", "32x32 colour", "parameters", "what it is")
    for name, params in MODELS.items():
        sizes = [
            f"{sum(weight.numel() for weight in build(name, shape, 10).parameters()):,}"
            for shape in ((1, 28, 28), (3, 32, 32))
        ]
        made.add_row(name, *sizes, keys(params), first_line(params))
    console.print(made)


def show_datasets(console: Console, data_dir: str | None) -> None:
    """One line a data set, and whether it can be loaded without a download."""
    from common.data import DATASETS, available

    made = table("data sets", "name", "found", "what it is")
    found = available(data_dir)
    for name, params in DATASETS.items():
        made.add_row(
            name, (found[name] or "no") if name in found else "your own", first_line(params)
        )
    console.print(made)
    console.print(
        "Files are looked for in --data-dir, $FEDMIRAGE_DATA or ~/.cache/fedmirage/data.",
        highlight=False,
    )


def keys(params: type[Params]) -> str:
    """The names of the keys."""
    return ", ".join(params.model_fields)


def first_line(params: type[Params]) -> str:
    """The first sentence or so of a docstring."""
    return next(iter(inspect.cleandoc(params.__doc__ or "").splitlines()), "")


if __name__ == "__main__":
    print(security_table())
