"""Your own network, as Python has it: a class, a function, or a module that is already made."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from fedmirage.api.session import write_constant, write_session
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
