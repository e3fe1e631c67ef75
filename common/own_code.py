"""Finds code that a user wrote, by the name that a setting gives it: "mylab.nets:TinyViT".

On one host whoever starts a run may name any module that Python finds, or a file ("./nets.py:Net").
A deployed node imports nothing that its owner does not list (`allow="mylab.nets"`), and a run's
numbers are only worth something if all sides have the same source, so its hash is compared.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.language import REFERENCE, nearest

MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
SOURCE = "source "  # before a reference: what the hash of its source is called in messages
VARIABLE = "FEDMIRAGE_PATH"  # folders in which whoever started a run finds modules
_importing: list[str] = []  # files that are being imported, to notice scripts that start runs


def is_reference(name: str) -> bool:
    """Whether a line names code itself, instead of something that is known by its name."""
    return ":" in name or name.endswith(".py")


def module_of(reference: str) -> str:
    """The module or the file of a reference; a file may stand alone."""
    return reference.rpartition(":")[0] or reference


def is_file(module: str) -> bool:
    """Whether this names a file instead of a module."""
    return MODULE.fullmatch(module) is None or module.endswith(".py")


def require_allowed(references: Iterable[str], allow: str) -> None:
    """Refuse, before anything is imported, what the owner of a node does not list in `allow`.

    An entry is a module, which includes those below it, or "module:attribute", which is narrower.
    """
    listed = [entry.strip() for entry in allow.split(",") if entry.strip()]
    for reference in references:
        module = module_of(reference)
        if is_file(module) and reference not in listed:
            raise FedmirageError(
                f"this node imports no file that a run names, such as {module!r}; install it as a"
                " module, whose name its owner lists in allow="
            )
        permitted = any(
            entry == reference or f"{module}.".startswith(f"{entry}.") for entry in listed
        )
        if not permitted:
            raise FedmirageError(
                f"this node does not import {module} for a run; its owner lists what it may in"
                " allow="
            )
        refuse_standard_library(module, "allow")


def is_standard(module: str) -> bool:
    """Whether a module comes with Python."""
    return module.partition(".")[0] in sys.stdlib_module_names


def refuse_standard_library(module: str, key: str) -> None:
    """Refuse what comes with Python: it has nothing to train, and much to do harm with."""
    if is_standard(module):
        raise ConfigurationError(
            f"{key}: {module} belongs to Python itself and is never imported for a run; name a"
            " module of yours or of an installed package"
        )


def find(reference: str, key: str) -> Any:
    """Import what a reference names; `key` is the setting that it stands in.

    Whether it may be imported has been decided before: on a node by `require_allowed`.
    """
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigurationError(f"{key}: {reference!r} names nothing; write module:attribute")
    found: Any = load(match["module"], key)
    for name in match["attribute"].split("."):
        if not hasattr(found, name):
            known = [name for name in vars(found) if not name.startswith("_")]
            raise ConfigurationError(
                f"{key}: {match['module']} has nothing called {name!r}{nearest(name, known)}"
            )
        found = getattr(found, name)
    return found


def load(module: str, key: str) -> ModuleType:
    """Import a module or a file, or say in a sentence why that fails."""
    refuse_standard_library(module, key)
    find_folders()
    if module.endswith(".py") and not Path(module).expanduser().is_file():
        raise ConfigurationError(f"{key}: there is no file {module!r}; check the path")
    importer = _load_file if is_file(module) else importlib.import_module
    try:
        try:
            return importer(module)
        except RuntimeError as error:
            from fedmirage.common.models.vision import MISSING_OPERATOR, torchvision

            if MISSING_OPERATOR not in str(error):
                raise
            torchvision()  # which it imports, and which needs help beside a CPU-only torch
            return importer(module)
    except FedmirageError:
        raise
    except Exception as error:
        text = " ".join(str(error).split()) or "no message"
        hint = "; install it, or start from the folder in which it lies"
        missing = isinstance(error, ModuleNotFoundError) and module.startswith(str(error.name))
        raise ConfigurationError(
            f"{key}: {module} cannot be imported ({type(error).__name__}: {text})"
            f"{hint if missing else ''}"
        ) from error


def find_folders() -> None:
    """Let Python find modules in the folders of whoever started the run."""
    for folder in os.environ.get(VARIABLE, "").split(os.pathsep):
        if folder and folder not in sys.path:
            sys.path.append(folder)  # at the end: nothing there takes the place of a library


def _load_file(file: str) -> ModuleType:
    """Execute a file once per process, as a module of a name that no other has."""
    path = Path(file).expanduser().absolute()
    name = f"fedmirage_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{str(path)!r} is no Python file; its name must end with .py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    _importing.append(str(path))
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        _importing.pop()
    return made


def refuse_while_importing() -> None:
    """Refuse to start a run while a run imports the script that would start it."""
    if _importing:
        raise FedmirageError(
            f"{_importing[-1]} starts a run while it is imported for one; put that call below"
            ' if __name__ == "__main__":'
        )


@lru_cache(maxsize=16)
def hash_source(reference: str) -> str:
    """Return a hash of the source that a reference names; the module is imported if need be.

    It covers the file of a module of its own, and otherwise every Python file of the package that
    holds it, because a module mostly uses its neighbours.
    """
    found = load(module_of(reference), "model")
    folders = [Path(folder) for folder in getattr(found, "__path__", ())]
    file = getattr(found, "__file__", None)
    if not folders and file and "." in found.__name__:
        folders = [Path(file).parent]
    files = {
        path.relative_to(folder).as_posix(): path
        for folder in folders
        for path in folder.rglob("*.py")
    }
    if not files and file:
        files = {Path(file).name: Path(file)}
    digest = hashlib.sha256()
    for name in sorted(files):
        content = hashlib.sha256(files[name].read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def hash_sources(references: Iterable[str]) -> dict[str, str]:
    """Return the hashes of all that a run has imported, by their references."""
    return {reference: hash_source(reference) for reference in references}


def announce_sources(references: Iterable[str]) -> dict[str, str]:
    """Return what the server tells a new node about what it has imported."""
    return {SOURCE + reference: found for reference, found in hash_sources(references).items()}


def explain_other_source(references: Iterable[str], told: Mapping[str, Any]) -> str:
    """Say which source of a node is not what the server announced; empty if all are the same."""
    for reference, own in hash_sources(references).items():
        if (theirs := str(told.get(SOURCE + reference, "no hash"))) != own:
            return (
                f"this node's {module_of(reference)} has other source than the server's"
                f" ({own[:15]} instead of {theirs[:15]}); install the same version on both"
            )
    return ""
