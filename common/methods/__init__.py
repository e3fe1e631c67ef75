"""One declaration per method. A new file here adds its method to `METHODS` without an edit."""

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
    """Collect the declarations of this package by the names of their methods."""
    modules = sorted(info.name for info in pkgutil.iter_modules(__path__))
    found = (
        find_class(importlib.import_module(f"{__name__}.{module}"), Method) for module in modules
    )
    return {method.name: method for method in found}


def find_class(module: ModuleType, base: type[T]) -> type[T]:
    """Find the one subclass of `base` that a module defines."""
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
    """Find a method's half on one side ("client" or "server"); None if it has none there."""
    module = f"{side}.methods.{method.name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return None
    return find_class(importlib.import_module(module), base)


METHODS = find_methods()
