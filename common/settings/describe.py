"""The allowed values of a setting or a key in words, derived from its type."""

import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}
LIMITS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
FAR = 2**31  # limits beyond this come from the computer and tell a reader nothing


@dataclass(frozen=True)
class Described:
    """One key of a line, or one setting of a run."""

    key: str
    default: str
    allowed: str
    meaning: str


def describe(params: type[BaseModel]) -> list[Described]:
    """Every field of a model, for listings."""
    return [
        Described(
            name,
            "required" if info.is_required() else repr(info.get_default(call_default_factory=True)),
            allowed(info),
            " ".join((info.description or "").split()),
        )
        for name, info in params.model_fields.items()
    ]


def allowed(info: FieldInfo) -> str:
    """The values that a field takes, e.g. "'sgd', 'adam' or 'adamw'" or "a number above 0"."""
    return alternatives(_choices(info.annotation, tuple(info.metadata)))


def alternatives(words: Iterable[str]) -> str:
    """List each word once, with "or" before the last one."""
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last


def _choices(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[str]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _choices(inner[0], (*inner[1:], *metadata))
    elif origin is Literal:
        yield from map(repr, inner)
    elif origin in (Union, types.UnionType):
        for part in inner:
            yield from _choices(part, metadata)
    elif annotation is type(None):
        yield "None"
    elif origin is tuple:
        yield f"({alternatives(_choices(inner[0], ()))}, ...)"
    else:
        yield f"{KINDS.get(annotation, str(annotation))}{_range(annotation, metadata)}"


def _range(annotation: Any, metadata: tuple[Any, ...]) -> str:
    if annotation not in (int, float):
        return ""
    rules = [rule for item in metadata for rule in getattr(item, "metadata", None) or [item]]
    limits = {
        name: limit
        for rule in rules
        for name in LIMITS
        if (limit := getattr(rule, name, None)) is not None and abs(limit) < FAR
    }
    if limits.keys() == {"ge", "le"}:
        return f" from {limits['ge']:g} to {limits['le']:g}"
    words = [f"{LIMITS[name]} {limit:g}" for name, limit in limits.items()]
    return f" {' and '.join(words)}" if words else ""
