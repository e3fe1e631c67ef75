"""One declaration per method. `METHODS` is what `ls` shows: adding a declaration adds a method,
without an edit here."""

import importlib
import importlib.util
import inspect
import pkgutil
from types import ModuleType
from typing import TypeVar

from common.method import Method, clashes

__all__ = ["METHODS", "Method", "clashes", "find_methods", "half"]

T = TypeVar("T")


def find_methods() -> dict[str, type[Method]]:
    """The declarations of this package by the names of their methods."""
    modules = sorted(info.name for info in pkgutil.iter_modules(__path__))
    found = (
        defined_in(importlib.import_module(f"{__name__}.{module}"), Method) for module in modules
    )
    return {method.name: method for method in found}


def defined_in(module: ModuleType, base: type[T]) -> type[T]:
    """The one subclass of `base` that a module defines: its method."""
    found = [
        thing
        for _, thing in inspect.getmembers(module, inspect.isclass)
        if issubclass(thing, base)
        and f"{thing.__module__}.".startswith(f"{module.__name__}.")
        and not thing.__name__.startswith("_")
    ]
    if len(found) != 1:
        raise TypeError(
            f"{module.__name__} must define exactly one {base.__name__}, not {len(found)}"
        )
    return found[0]


def half(side: str, method: Method, base: type[T]) -> type[T] | None:
    """A method's half on one side ("client" or "server"), or None where it has none."""
    module = f"{side}.methods.{method.name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return None
    return defined_in(importlib.import_module(module), base)


METHODS = find_methods()
