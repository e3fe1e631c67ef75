"""One declaration per method. A new file here adds its method to `METHODS` without an edit.

A module whose name begins with an underscore is no method: several methods share it.
"""

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator, MutableMapping
from types import ModuleType
from typing import TypeVar

from fedmirage.common.method import Method, clashes

__all__ = ["METHODS", "Method", "clashes", "find_methods", "half"]

T = TypeVar("T")


class Declarations(MutableMapping[str, type[Method]]):
    """The declarations by the names of their methods; each is imported when it is first read."""

    # A run uses one or two of them, and --help none, but all would cost a third of a second.

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules  # method -> module that declares it
        self._read: dict[str, type[Method]] = {}

    def __getitem__(self, name: str) -> type[Method]:
        if name not in self._read:
            self._read[name] = self._import(name)
        return self._read[name]

    def _import(self, name: str) -> type[Method]:
        module = importlib.import_module(self._modules[name])
        method = find_class(module, Method)
        if method.name != name:
            raise TypeError(f"{module.__name__} declares {method.name!r}; rename one of the two")
        return method

    def __setitem__(self, name: str, method: type[Method]) -> None:
        self._modules[name], self._read[name] = method.__module__, method

    def __delitem__(self, name: str) -> None:
        del self._modules[name]
        self._read.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __len__(self) -> int:
        return len(self._modules)


def find_methods() -> Declarations:
    """Collect the declarations of this package by the names of their methods."""
    found = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [name for name in found if not name.startswith("_")]
    return Declarations({name.replace("_", "-"): f"{__name__}.{name}" for name in modules})


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
    module = f"fedmirage.{side}.methods.{method.name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return None
    return find_class(importlib.import_module(module), base)


METHODS = find_methods()
