"""Methods that somebody else wrote: found in installed packages, in modules and in files.

A package registers its method in the entry-point group `fedmirage.methods`. The name of an entry is
that of the method, its value is the class: `prior = "fedmirage_prior:Prior"`. The halves are in the
module of the class, or in the modules `client` and `server` beside it. On one host, a methods line
may also name the class itself ("mylab.prior:Prior") or a file ("./prior.py").
"""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import ConfigDict

from fedmirage.common.errors import ConfigurationError, collect, refuse
from fedmirage.common.method import Method
from fedmirage.common.own_code import find, find_folders, is_reference, load
from fedmirage.common.settings.language import NAME

GROUP = "fedmirage.methods"
KEY = "methods"
SIDES = {
    "client": "fedmirage.client.objective:Objective",
    "server": "fedmirage.server.strategy.wrapper:StrategyWrapper",
}
_reading: ContextVar[bool] = ContextVar("reading", default=False)
_loaded: dict[str, type[Method]] = {}  # reference -> declaration

T = TypeVar("T")


def find_providers() -> dict[str, list[tuple[str, str]]]:
    """Map names of methods to the classes and the packages that provide them; none is imported."""
    find_folders()
    folders = {folder for folder in sys.path if os.path.isdir(folder)}
    return _find_providers(frozenset((name, os.stat(name).st_mtime_ns) for name in folders))


@lru_cache(maxsize=4)
def _find_providers(_: frozenset[tuple[str, int]]) -> dict[str, list[tuple[str, str]]]:
    from importlib.metadata import entry_points  # here, because --help does not need it

    found: dict[str, list[tuple[str, str]]] = {}
    for entry in entry_points(group=GROUP):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        found.setdefault(entry.name.lower(), []).append((entry.value, package))
    return found


def find_reference(name: str, is_ours: bool) -> str:
    """Return the class behind a name of a methods line; empty for a method of fedmirage."""
    if is_reference(name):
        return name
    providers = find_providers().get(name, [])
    packages = " and ".join(package for _, package in providers)
    if is_ours and providers:
        raise ConfigurationError(
            f"{KEY}: {name!r} is a method of fedmirage and of the package {packages}; uninstall"
            " that package, or give its method another name"
        )
    if len(providers) > 1:
        raise ConfigurationError(
            f"{KEY}: {name!r} is a method of the packages {packages}; uninstall all but one"
        )
    return providers[0][0] if providers else ""


def declare(name: str, reference: str) -> type[Method]:
    """Import the declaration that a reference names, and refuse one that cannot be used."""
    if reference in _loaded:
        return _loaded[reference]
    if _reading.get() and is_reference(name):
        return _make_stand_in(name)
    kind = find(reference, KEY) if ":" in reference else _find_only(reference)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise ConfigurationError(
            f"{KEY}: {reference} is no declaration of a method; name a subclass of"
            " fedmirage.common.method.Method"
        )
    unset = [key for key in ("name", "title", "authors", "link") if not hasattr(kind, key)]
    problems = [f"{KEY}: {reference} does not say its {key}; write {key} = ..." for key in unset]
    if not unset and (not NAME.fullmatch(kind.name) or kind.name != kind.name.lower()):
        problems.append(
            f"{KEY}: {reference} is called {kind.name!r}; a name has small letters, digits and"
            " hyphens, such as my-method"
        )
    elif not unset and not is_reference(name) and kind.name != name:
        problems.append(
            f"{KEY}: {reference} is registered as {name!r}, but its name is {kind.name!r}; write"
            " the same name in both places"
        )
    refuse(problems)
    return _loaded.setdefault(reference, kind)


def _find_only(file: str) -> type[Method]:
    """Find the one method of a file."""
    found = find_classes(load(file, KEY), Method)
    if not found:
        raise ConfigurationError(
            f"{KEY}: {file} declares no method; it needs a subclass of"
            " fedmirage.common.method.Method"
        )
    if len(found) > 1:
        names = " or ".join(f'"{file}:{kind.__name__}"' for kind in found)
        raise ConfigurationError(f"{KEY}: {file} declares {len(found)} methods; write {names}")
    return found[0]


def find_classes(module: ModuleType, base: type[T]) -> list[type[T]]:
    """Find the subclasses of `base` that a module or its submodules define."""
    return [
        thing
        for _, thing in inspect.getmembers(module, inspect.isclass)
        if issubclass(thing, base)
        and f"{thing.__module__}.".startswith(f"{module.__name__}.")
        and not thing.__name__.startswith("_")
    ]


def find_own_half(side: str, kind: type[Method], base: type[T]) -> type[T] | None:
    """Find a half in the module of a declaration, or in the module of that side beside it."""
    for module in _list_homes(side, kind):
        found = find_classes(module, base)
        if len(found) > 1:
            found = [half for half in found if kind in _list_arguments(half)]
        if len(found) == 1:
            return found[0]
        if find_classes(module, base):
            raise ConfigurationError(
                f"{KEY}: {module.__name__} does not say which of its {side} halves belongs to"
                f" {kind.name}; write class ...({base.__name__}[{kind.__name__}]) for one of them"
            )
    return None


def _list_homes(side: str, kind: type[Method]) -> Iterator[ModuleType]:
    yield sys.modules[kind.__module__]
    inside, beside = kind.__module__, kind.__module__.rpartition(".")[0]
    for package in (inside, beside):
        if hasattr(sys.modules.get(package), "__path__"):
            name = f"{package}.{side}"
            if importlib.util.find_spec(name) is not None:
                yield load(name, KEY)


def _list_arguments(half: type) -> list[Any]:
    """List the methods for which a half says that it is: Prior in `Objective[Prior]`."""
    bases = getattr(half, "__orig_bases__", ())
    return [argument for base in bases for argument in get_args(base)]


def find_missing_halves(methods: tuple[Method, ...]) -> list[str]:
    """Say which methods of somebody else declare work for which there is no half.

    This imports the halves, and so torch.
    """
    own = [type(method) for method in methods if type(method) in _loaded.values()]
    return [problem for kind in own for problem in _check_halves(kind)]


def _check_halves(kind: type[Method]) -> list[str]:
    found: dict[str, Any] = {}
    problems: list[str] = []
    for side, base in SIDES.items():
        with collect(problems):
            found[side] = find_own_half(side, kind, find(base, KEY))
    if problems:
        return problems
    needed, file = list_needs(kind), sys.modules[kind.__module__].__file__
    problems = [
        f"{KEY}: {kind.name} declares {', '.join(why)}, but has no {side} half; write a subclass of"
        f" {SIDES[side].partition(':')[2]} in {file}, or in {side}.py beside it"
        for side, why in needed.items()
        if why and found[side] is None
    ]
    if not any(found.values()) and not any(needed.values()) and kind.parts is Method.parts:
        problems.append(
            f"{KEY}: {kind.name} has neither a client half nor a server half, so it does nothing;"
            f" write client.py or server.py beside {file}"
        )
    return problems


def list_needs(kind: type[Method]) -> dict[str, list[str]]:
    """List what a declaration leaves to each side."""
    client = ("metrics", "diagnostics", "prepares", "replaces_data")
    return {
        "client": [name for name in client if getattr(kind, name)]
        + ["up"] * (kind.up is not Method.up),
        "server": [name for name in ("down", "place") if getattr(kind, name)],
    }


@contextmanager
def nothing_imported() -> Iterator[None]:
    """Let records be read without importing the modules and files that they name.

    Whoever wrote a record must not execute code here. What was imported for a line that a person
    typed is known; a stand-in without sections takes the place of anything else.
    """
    token = _reading.set(True)
    try:
        yield
    finally:
        _reading.reset(token)


def _make_stand_in(reference: str) -> type[Method]:
    class StandIn(Method):
        """A method that a record names; any parameters fit."""

        model_config = ConfigDict(extra="allow")
        name: ClassVar[str] = reference
        title: ClassVar[str] = reference
        authors: ClassVar[str] = ""
        link: ClassVar[str] = ""

    return StandIn
