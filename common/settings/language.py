"""The one small language: `name(key=literal, ...)`, several separated by commas.

`methods`, `dataset`, `partition`, `model`, `secagg`, `dp` and `schedule` are all written in it.
Literals are read with `ast`, never evaluated. Each name belongs to a frozen pydantic model
(`Params`), so that a wrong name, key, type or range is refused with a sentence, and all problems
are reported at once.
"""

import ast
import difflib
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fedmirage.common.errors import ConfigurationError, collect, refuse

LONGEST = 5000  # characters of a line
NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.IGNORECASE)
PATH = re.compile(r"(\w+)\s*=\s*([/~.][^,'\"()]*)")  # a path without quotes
# The name of somebody's own code, e.g. mylab.nets:TinyViT or ./nets.py:TinyViT, see own_code.py; a
# file with one method may stand alone.
REFERENCE = re.compile(r"(?P<module>[^:()'\"]+):(?P<attribute>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
FILE = re.compile(r"[^:()'\"]+\.py")


class Params(BaseModel):
    """The keys that one name accepts in its parentheses; the sentence under each explains it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        # A command needs the validators of the few names that its lines use, never all of them.
        defer_build=True,
    )
    name: ClassVar[str] = ""
    renamed: ClassVar[dict[str, str]] = {}  # from former names of keys to their present ones


P = TypeVar("P", bound=Params)


@dataclass(frozen=True)
class Call:
    """One `name(key=literal, ...)`, with lists as tuples.

    The name is in lower case, unless it is that of somebody's own code.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


def parse(text: str, key: str) -> list[Call]:
    """Read a line of calls; every problem names `key`, the setting that the line belongs to."""
    problems: list[str] = []
    if len(text) > LONGEST:
        raise ConfigurationError(
            f"{key}: the line has {len(text)} characters, and may have {LONGEST}; shorten it"
        )
    calls = [call for piece in split(text) if (call := _read(piece, key, problems)) is not None]
    if not calls and not problems:
        problems.append(
            f"{key}: empty; write a name, for example {key}={EXAMPLES.get(key, 'fedavg')!r}"
        )
    refuse(problems)
    return calls


EXAMPLES = {
    "dataset": "digits",
    "partition": "iid",
    "model": "simple-cnn",
    "secagg": "off",
    "dp": "off",
    "schedule": "constant",
    "tune-schedules": "cosine",
    "attack": "inversion",
}


def split(text: str) -> list[str]:
    """Split a line at the commas outside brackets and quotes."""
    pieces, depth, quote, start = [], 0, "", 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            pieces.append(text[start:position])
            start = position + 1
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _read(piece: str, key: str, problems: list[str]) -> Call | None:
    """Read one call; whatever Python's parser does over it, the answer is a sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid decimal literal", beside our own sentence
            return _read_call(piece, key, problems)
    except (RecursionError, MemoryError):
        problems.append(f"{key}: cannot read {piece[:40]!r}...; it is nested too deeply")
        return None


def _read_call(piece: str, key: str, problems: list[str]) -> Call | None:
    name, bracket, rest = piece.partition("(")
    name = name.strip()
    own = (REFERENCE.fullmatch(name) or FILE.fullmatch(name)) is not None
    if not (own or NAME.fullmatch(name)) or (bracket and not rest.rstrip().endswith(")")):
        problems.append(f"{key}: cannot read {piece!r}; write name or name(key=value, ...)")
        return None
    name = name if own else name.lower()
    if not bracket:
        return Call(name)
    try:
        source = f"_({rest.rstrip()[:-1]}\n)"
        node = ast.parse(source, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise SyntaxError
    except (SyntaxError, ValueError):
        fix = f"write {name}(key=value, ...)"
        if bare := PATH.search(rest):
            fix = f"a path needs quotes: write {bare[1]}='{bare[2]}'"
        problems.append(f"{key}: cannot read the arguments of {piece!r}; {fix}")
        return None
    if node.args:
        problems.append(
            f"{key}: {name} takes keyword arguments only; write key={ast.unparse(node.args[0])} in"
            f" {piece!r}"
        )
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            problems.append(f"{key}: {name} does not take '**'; write key=value")
            continue
        if keyword.arg in arguments:
            problems.append(f"{key}: {name} has the key {keyword.arg!r} twice; keep one")
        try:
            arguments[keyword.arg] = freeze(ast.literal_eval(keyword.value))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = ast.get_source_segment(source, keyword.value) or ""
            hint = (
                f"; write {value.title()}"
                if value in ("true", "false", "none")
                else f'; a text is written "{value}"'
            )
            problems.append(f"{key}: {name}({keyword.arg}={value}) is not a literal{hint}")
    return Call(name, arguments)


def freeze(literal: Any) -> Any:
    """Turn lists into tuples, because parsed lines are immutable values."""
    if isinstance(literal, list | tuple):
        return tuple(freeze(item) for item in literal)
    return literal


def resolve(call: Call, known: Mapping[str, type[P]], key: str) -> P:
    """Turn a call into its params model, or raise with all its problems."""
    if call.name not in known:
        raise ConfigurationError(
            f"{key}: no {noun(key)} is called {call.name!r}{nearest(call.name, known)}"
        )
    model, subject = known[call.name], f"{key}: {call.name}"
    problems = [
        f"{subject}: the key {old!r} is now {new!r}"
        for old, new in model.renamed.items()
        if old in call.arguments
    ]
    arguments = {model.renamed.get(name, name): value for name, value in call.arguments.items()}
    try:
        params = model(**arguments)
    except ValidationError as error:
        problems += [sentence(detail, subject, model.model_fields) for detail in error.errors()]
    refuse(problems)
    return params


def resolve_line(text: str, known: Mapping[str, type[P]], key: str) -> list[P]:
    """Read and resolve a whole line, collecting the problems of all its calls."""
    resolved: list[P] = []
    problems: list[str] = []
    for call in parse(text, key):
        with collect(problems):
            resolved.append(resolve(call, known, key))
    refuse(problems)
    return resolved


def resolve_one(text: str, known: Mapping[str, type[P]], key: str) -> P:
    """Read and resolve a line that must hold exactly one name."""
    found = resolve_line(text, known, key)
    if len(found) > 1:
        raise ConfigurationError(
            f"{key}: {text!r} holds {len(found)} names; a run has one {noun(key)}, so keep one"
            " of them"
        )
    return found[0]


def write(params: Params) -> str:
    """The shortest line that means these params: it holds only what differs from the defaults."""
    named = [
        name
        for name, info in type(params).model_fields.items()
        if info.is_required()
        or getattr(params, name) != info.get_default(call_default_factory=True)
    ]
    extra = params.model_extra or {}  # what own code takes is not known here
    arguments = ", ".join(
        [f"{name}={getattr(params, name)!r}" for name in named]
        + [f"{name}={value!r}" for name, value in extra.items()]
    )
    return f"{params.name}({arguments})" if arguments else params.name


def sentence(detail: Any, subject: str, fields: Iterable[str]) -> str:
    """Turn a pydantic error into a sentence that names the key, the value and the fix."""
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{subject} has no key {key!r}{nearest(key, fields)}"
    if detail["type"] == "missing":
        return f"{subject} needs the key {key!r}; write {key}=..."
    message = str(detail["msg"]).removeprefix("Value error, ").partition(", unable to ")[0]
    message = message[:1].lower() + message[1:]
    return f"{subject}({key}={detail['input']!r}): {message}" if key else f"{subject}: {message}"


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...' if a known name is similar, and otherwise all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {' or '.join(repr(name) for name in close)}?"
    return f"; there is {', '.join(names)}" if names else "; it takes no keys"


def noun(key: str) -> str:
    """The word for one item of a setting: a `method` of `methods`."""
    return {"methods": "method", "tune-schedules": "schedule"}.get(key, key)
