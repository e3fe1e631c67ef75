"""Your own network, as Python has it: a class, a function, or a module that is already made.

The source of one that was typed into a notebook is written to a file that others can import.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import inspect
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from fedmirage.common.errors import ConfigurationError, say_kind

ASK = 'write model=functools.partial(Net, width=64) or model="module:Net(width=64)"'


def settle_network(settings: dict[str, Any]) -> dict[str, Any]:
    """Replace a network among settings by the line that names it.

    The weights of a module that is already made become the initial ones of the run.
    """
    model = settings.get("model")
    if model is None or isinstance(model, str):
        return settings
    if not is_module(model):
        return {**settings, "model": name_network(model)}
    if settings.get("initial_weights"):
        raise ConfigurationError(
            "model= is a module with weights, and initial_weights= names others; give the class"
            " instead of the module, or leave initial_weights out"
        )
    return {**settings, "model": name_network(type(model)), "initial_weights": keep_weights(model)}


def is_module(model: Any) -> bool:
    """Whether this is a module that is already made; torch is loaded if there can be one."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def name_network(model: Any) -> str:
    """Return the line that names a class or function, also with arguments in a partial."""
    arguments: dict[str, Any] = {}
    while isinstance(model, functools.partial):
        if model.args:
            raise ConfigurationError(
                f"model= is a partial with positional arguments {model.args}; name them"
            )
        model, arguments = model.func, {**model.keywords, **arguments}
    name = getattr(model, "__qualname__", "")
    if not callable(model) or not name:
        raise ConfigurationError(
            f"model={model!r} is {say_kind(model)}; give a line, a class, a function that"
            " returns a torch.nn.Module, or such a module"
        )
    if "<" in name:
        raise ConfigurationError(
            f"model= is {name}, which other processes cannot find; define it at the top of a module"
        )
    given = ", ".join(
        f"{key}={write_constant(key, value, name)}" for key, value in arguments.items()
    )
    return f"{find_home(model)}:{name}" + (f"({given})" if given else "")


def find_home(model: Any) -> str:
    """Return the module in which other processes find something, or a file.

    That is the script, or a copy of what was typed into a session.
    """
    if model.__module__ != "__main__":
        return str(model.__module__)
    file = getattr(sys.modules["__main__"], "__file__", None)
    return str(Path(file).absolute() if file else write_session(model))


def keep_weights(model: Any) -> str:
    """Write the weights of a module to a file of the cache, and return its path.

    Other processes make the module anew, so its class must need no arguments.
    """
    from fedmirage.common.data.cache import cache_folder
    from fedmirage.common.wire.files import compute_checksum, write_arrays
    from fedmirage.common.wire.manifest import Manifest, to_arrays

    kind = type(model)
    try:
        same = Manifest.of(kind()) == Manifest.of(model)
    except Exception:
        same = False
    if not same:
        raise ConfigurationError(
            f"model= is a {kind.__name__} that {kind.__name__}() does not make again, so other"
            f" processes cannot; {ASK.replace('Net', kind.__name__)}"
        )
    named = Manifest.of(model).name(to_arrays(model))
    path = cache_folder() / "networks" / f"{compute_checksum(named, {})[:32]}.safetensors"
    write_arrays(path, named, private=True)
    return str(path.absolute())


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
