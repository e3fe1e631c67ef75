"""One declaration per method. A new file here adds its method to `METHODS` without an edit.

A module whose name begins with an underscore is no method: several methods share it. Methods that
somebody else wrote are found by `own_methods`.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, MutableMapping
from types import ModuleType
from typing import TypeVar

from fedmirage.common import own_methods
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import Method, clashes
from fedmirage.common.own_code import is_reference
from fedmirage.common.settings.language import parse

__all__ = ["METHODS", "Method", "clashes", "find_methods", "half", "list_own"]

T = TypeVar("T")


class Declarations(MutableMapping[str, type[Method]]):
    """The declarations by the names of their methods; each is imported when it is first read.

    Besides those here, it knows those of installed packages, and it takes the name of a class or a
    file for a name, too.
    """

    # A run uses one or two of them, and --help none, but all would cost a third of a second.

    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules  # method -> module that declares it
        self._read: dict[str, type[Method]] = {}

    def __getitem__(self, name: str) -> type[Method]:
        if reference := self.reference(name):
            return self._declare(name, reference)
        if name not in self._read:
            self._read[name] = self._import(name)
        return self._read[name]

    @property
    def ours(self) -> tuple[str, ...]:
        """The names of the methods that are part of fedmirage."""
        return tuple(self._modules)

    def reference(self, name: str) -> str:
        """Return the class behind a name, as "module:Class"; empty for a method of fedmirage."""
        return own_methods.find_reference(name, name in self._modules)

    def _declare(self, name: str, reference: str) -> type[Method]:
        method = own_methods.declare(name, reference)
        if method.name in self._modules:
            raise ConfigurationError(
                f"methods: {name} declares {method.name!r}, which is a method of fedmirage; give"
                " yours another name"
            )
        return method

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

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (is_reference(name) or name in list(self))

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._modules, *sorted(own_methods.find_providers())]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def find_methods() -> Declarations:
    """Collect the declarations of this package by the names of their methods."""
    found = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [name for name in found if not name.startswith("_")]
    return Declarations({name.replace("_", "-"): f"{__name__}.{name}" for name in modules})


def find_class(module: ModuleType, base: type[T]) -> type[T]:
    """Find the one subclass of `base` that a module defines."""
    found = own_methods.find_classes(module, base)
    if len(found) != 1:
        raise TypeError(
            f"{module.__name__} must define exactly one {base.__name__}, not {len(found)}"
        )
    return found[0]


def half(side: str, method: Method, base: type[T]) -> type[T] | None:
    """Find a method's half on one side ("client" or "server"); None if it has none there."""
    if not type(method).__module__.startswith(f"{__name__}."):
        return own_methods.find_own_half(side, type(method), base)
    module = f"fedmirage.{side}.methods.{method.name.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return None
    return find_class(importlib.import_module(module), base)


def list_own(line: str) -> list[str]:
    """List the classes and files that a methods line names or stands for; none is imported."""
    found = [METHODS.reference(call.name) for call in parse(line, "methods")]
    return [reference for reference in found if reference]


METHODS = find_methods()
