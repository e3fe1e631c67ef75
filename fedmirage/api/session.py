"""A network that was typed into a notebook: writes its source to a file that others can import."""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from fedmirage.common.errors import ConfigurationError, say_kind


def write_session(model: Any) -> Path:
    """Write a class or function of this session, and all that it uses of it, to the cache."""
    from fedmirage.common.data.cache import cache_folder
    from fedmirage.common.drafts import write_whole

    pieces: dict[str, str] = {}
    collect(model.__name__, model, pieces, model.__name__)
    text = "\n\n".join(pieces.values()) + "\n"
    name = f"session_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    path = (cache_folder() / "networks" / name).absolute()
    write_whole(path, text.encode(), private=True)
    return path


def collect(name: str, value: Any, pieces: dict[str, str], subject: str) -> None:
    """Add the source by which another process gets the same under a name, after what it needs."""
    if name in pieces:
        return
    if isinstance(value, ModuleType):
        pieces[name] = f"import {value.__name__} as {name}"
    elif getattr(value, "__module__", "__main__") not in ("__main__", None) and inspect_name(value):
        pieces[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
    elif inspect.isclass(value) or inspect.isfunction(value):
        pieces[name] = ""  # so that it may use itself
        node = find_definition(value, subject)
        shared = vars(sys.modules["__main__"])
        for used in sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)}):
            if used in shared and not hasattr(builtins, used):
                collect(used, shared[used], pieces, subject)
        del pieces[name]
        pieces[name] = ast.unparse(node)
    else:
        pieces[name] = f"{name} = {write_constant(name, value, subject)}"


def inspect_name(value: Any) -> bool:
    """Whether something can be imported by its name."""
    name = getattr(value, "__qualname__", "")
    return bool(name) and getattr(sys.modules.get(value.__module__), name, None) is value


def find_definition(value: Any, subject: str) -> ast.stmt:
    """Find the statement that defined something, in the cell that was typed."""
    made = [value, *vars(value).values()] if inspect.isclass(value) else [value]
    codes = [one.__code__ for one in made if inspect.isfunction(one)]
    lines = linecache.getlines(codes[0].co_filename) if codes else []
    body = ast.parse("".join(lines)).body
    for node in reversed(body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__:
            return node
    raise refuse(subject, f"the source of {value.__name__} is not known")


def write_constant(name: str, value: Any, subject: str) -> str:
    """Write a number, a text or a list of such, so that another process reads the same."""
    try:
        if ast.literal_eval(repr(value)) == value:
            return repr(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    raise refuse(subject, f"{name} is {say_kind(value)}, which cannot be written down")


def refuse(subject: str, why: str) -> ConfigurationError:
    """Say what to do with a network that lives in this session only."""
    return ConfigurationError(
        f"model={subject} cannot be made by the other processes of a run: {why}; write a function"
        " without arguments that returns the network to a file, e.g. with %%writefile nets.py at"
        " the top of its cell, and import it from there"
    )
