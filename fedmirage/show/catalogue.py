"""Lists methods, models, partitions, schedules, data sets and presets.

Each parameter has its default, its meaning and its allowed values, straight from the code.
"""

import inspect
import re
from collections.abc import Mapping
from typing import Any, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.schedules import SCHEDULES
from fedmirage.common.method import describe_parts
from fedmirage.common.methods import METHODS, Method
from fedmirage.common.models.factory import build
from fedmirage.common.models.params import MODELS
from fedmirage.common.secagg.settings import why_not
from fedmirage.common.settings.config import defaults
from fedmirage.common.settings.describe import describe
from fedmirage.common.settings.language import Params, resolve_one
from fedmirage.show.prose import show_prose
from fedmirage.show.words import say

EXAMPLES = "constant|constant(warmup=4)|exponential(factor=0.8)|step(at=6, factor=0.2)|cosine"


def table(title: str, *columns: str) -> Table:
    """Make a table whose last column takes the remaining width, and whose names stay whole."""
    empty = Table(title=title, title_justify="left", show_lines=False)
    for column in columns:
        ratio = 1 if column == columns[-1] else None
        empty.add_column(column, overflow="fold", no_wrap=column == columns[0], ratio=ratio)
    return empty


def show(console: Console, made: Table, *more: str) -> None:
    """Print a table, and under it how to learn more."""
    console.print(made)
    console.print("".join(more), highlight=False)


def variants(kind: type[Method]) -> dict[str, Method]:
    """Return a method with each of its variants, as they are written in --methods.

    A method without variants is returned as it is, even if a parameter has no default.
    """
    field = kind.model_fields.get("variant")
    if field is None:
        return {kind.name: kind.model_construct()}
    parts = get_args(field.annotation)  # names, or types of which some have names
    names = [name for part in parts for name in (get_args(part) or [part]) if isinstance(name, str)]
    return {
        f"{kind.name}(variant='{name}')": kind.model_validate({"variant": name}) for name in names
    }


def sends(method: Method) -> tuple[str, str]:
    """Say what clients send in addition to `shared`, and whether a sum of it is enough."""
    if not method.parts.sends:
        return "nothing", "yes"
    up = ", ".join(f"{section.name}" for section in method.up) or "nothing"
    reason = why_not(method)
    return up, "yes" if reason is None else f"no: {reason}"


def sends_in_all(kind: type[Method]) -> tuple[str, list[str]]:
    """Say what clients of a method send, and for each variant whether a sum of it is enough."""
    written = variants(kind).values()
    parts = " or ".join(dict.fromkeys(describe_parts(one.parts) for one in written))
    sent, allowed = zip(*map(sends, written), strict=True)
    return parts + ("" if sent[0] == "nothing" else f", and the section `{sent[0]}`"), list(allowed)


def show_methods(console: Console) -> None:
    """Show what each method does, what its clients send, and whether sums of it are enough."""
    made = table("methods", "name", "what it does, what clients send, and whether secagg allows it")
    for name in METHODS:
        try:
            method = METHODS[name]
        except ConfigurationError as error:  # of a package that somebody else wrote
            made.add_row(name, Text(f"Cannot be used: {error}"))
            continue
        sent, allowed = sends_in_all(method)
        instead = method.summable_instead.removeprefix("write ") or "no"
        some = "some variants" if "yes" in allowed else instead
        shown = "yes" if set(allowed) == {"yes"} else some
        text = f"{summary(method)} ({method.authors}). Sends {sent}. secagg: {shown}."
        made.add_row(method.name, Text(text))
    show(
        console,
        made,
        "fedmirage methods NAME explains one, with its paper and parameters. Join several with"
        ' commas, e.g. --methods "scaffold, fedcog(start=20)": each wraps those to its left. Your'
        " own may be a file, ./mymethod.py, or an installed package; see docs/own-method.md.",
    )


def summary(method: type[Method]) -> str:
    """Return the first line of a method's declaration, without the method's name and the stop."""
    module = inspect.getmodule(method)
    first = ((module.__doc__ if module else "") or "").strip().partition("\n")[0]
    text = first.partition(": ")[2] or first
    return f"{text[:1].upper()}{text[1:]}".removesuffix(".")


def show_method(console: Console, method: type[Method]) -> None:
    """Show a method's declaration: the text of its module, then its parameters."""
    module = inspect.getmodule(method)
    show_prose(console, (module.__doc__ if module else "") or "")
    console.print(
        f"{method.title}\n{method.authors}\n{method.link}\n", highlight=False, markup=False
    )
    show_parameters(console, method)


def show_entry(console: Console, params: type[Params]) -> None:
    """Show a model, a partition or a data set."""
    text = "\n\n".join(paragraphs(params))
    console.print(f"{params.name}: {text}\n", highlight=False, markup=False)
    show_parameters(console, params)


def show_parameters(console: Console, params: type[Params]) -> None:
    """Show every parameter that can be set in the parentheses."""
    rows = describe(params)
    if not rows:
        console.print(f"{params.name} takes no parameters.", highlight=False)
        return
    made = table(f"{params.name}(...)", "key", "default", "meaning")
    for row in rows:
        made.add_row(row.key, row.default, Text(f"{row.meaning}\nAllowed: {row.allowed}."))
    console.print(made)


def show_models(console: Console) -> None:
    """Show one line per model, with its number of weights for two usual shapes and ten classes."""
    made = table("models", "name", "28x28 grey", "32x32 colour", "parameters", "what it is")
    for name, params in MODELS.items():
        sizes = [count_weights(name, shape) for shape in ((1, 28, 28), (3, 32, 32))]
        made.add_row(name, *sizes, keys(params), first_sentence(params))
    text = "The numbers are weights, for ten classes. fedmirage models NAME explains one. Your own"
    show(console, made, text, ' network is "module:Class(width=64)"; see docs/own-network.md.')


def count_weights(model: str, shape: tuple[int, ...]) -> str:
    """Count the weights of a model for ten classes; "-" if it does not take such inputs."""
    try:
        return f"{sum(weight.numel() for weight in build(model, shape, 10).parameters()):,}"
    except ConfigurationError:
        return "-"


def show_partitions(console: Console) -> None:
    """Show one line per partition."""
    made = table("partitions", "name", "parameters", "what it is")
    for name, params in PARTITIONS.items():
        made.add_row(name, keys(params), first_sentence(params))
    text = "fedmirage partitions NAME explains one; fedmirage partition shows what it does to the"
    show(console, made, text, " data.")


def show_schedules(console: Console) -> None:
    """Show one line per schedule, with the rates that it gives to ten rounds."""
    made = table("schedules", "example", "rounds 1, 2, ..., 10 of 10 with --lr 1", "what it is")
    for text in EXAMPLES.split("|"):
        params = resolve_one(text, SCHEDULES, "schedule")
        rates = [f"{params.multiplier(number, 10):.2g}" for number in range(1, 11)]
        made.add_row(text, " ".join(rates), first_sentence(type(params)))
    text = "All take warmup=N. fedmirage schedules NAME explains one; --lr-decay 0.99 is short for"
    show(console, made, text, ' --schedule "exponential(factor=0.99)".')


def show_presets(console: Console, presets: Mapping[str, Mapping[str, Any]]) -> None:
    """Show one line per preset, with the main things that it sets."""
    width = max(map(len, presets))
    for name, settings in presets.items():
        told = "{methods} on {dataset}, {partition}, {model}, {clients} clients, {rounds} rounds"
        line = f"{name:<{width}}  {told.format_map({**defaults(), **settings})}"
        say(console, line)
    text = "\nfedmirage presets NAME shows everything that one sets; flags override it."
    console.print(text, highlight=False)


def show_datasets(console: Console, data_dir: str | None) -> None:
    """Show one line per data set, and whether it can be loaded without a download."""
    from fedmirage.common.data.catalogue.params import DATASETS
    from fedmirage.common.data.loading import list_available

    made = table("data sets", "name", "found", "what it is")
    found = list_available(data_dir)
    for name, params in DATASETS.items():
        origin = (found[name] or "no") if name in found else "your own"
        made.add_row(name, origin, first_sentence(params))
    show(
        console,
        made,
        "fedmirage datasets NAME explains one. Files may lie in --data-dir, $FEDMIRAGE_DATA"
        " or ~/.cache/fedmirage/data; a run with --download fetches what is missing.",
    )


def keys(params: type[Params]) -> str:
    """Join the names of the parameters."""
    return ", ".join(params.model_fields)


def first_sentence(params: type[Params]) -> str:
    """Return the first sentence of a docstring."""
    first = next(iter(paragraphs(params)), "")
    return re.split(r"(?<=\.)\s+(?=[A-Z])", first)[0]


def paragraphs(params: type) -> list[str]:
    """Return the paragraphs of a docstring, each without line breaks."""
    texts = inspect.cleandoc(params.__doc__ or "").split("\n\n")
    return [" ".join(text.split()) for text in texts]
