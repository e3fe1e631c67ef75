"""Which settings are fine alone and not together: a list of small functions.

Each rule takes the configuration as far as it is valid, and its lines as far as they could be read.
A rule that looks at a setting which was refused already meets `RefusedError` and has nothing to
add: the user mends that setting first, and hears of everything else at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from common.method import clashes, required_weighting
from common.settings.lines import Lines

if TYPE_CHECKING:
    from common.settings.config import RunConfig

T = TypeVar("T")
Rule = Callable[["RunConfig", Lines], list[str]]


class RefusedError(Exception):
    """Somebody looked at a setting whose value was refused."""


def require(value: T | None, key: str) -> T:
    """A line that was read; without it whoever asked cannot go on."""
    if value is None:
        raise RefusedError(key)
    return value


def contradictions(config: RunConfig, lines: Lines) -> list[str]:
    """What every rule, every method and both kinds of privacy have against these settings."""
    checks = [partial(rule, config, lines) for rule in RULES]
    checks += [partial(method.check, config) for method in lines.methods or ()]
    checks += [partial(lines.secagg.check, config)] if lines.secagg else []
    checks += [partial(lines.dp.check, config)] if lines.dp else []
    problems: list[str] = []
    for check in checks:
        with suppress(RefusedError):
            problems += check()
    return problems


def one_length_of_training(config: RunConfig, lines: Lines) -> list[str]:
    """Steps and epochs both say how long a client trains."""
    if bool(config.local_steps) != bool(config.local_epochs):
        return []
    both = f"local-steps={config.local_steps} and local-epochs={config.local_epochs}"
    return [f"{both}: exactly one of them counts; set the other to 0"]


def enough_clients_for_replies(config: RunConfig, lines: Lines) -> list[str]:
    """A round cannot bring more replies than it has clients."""
    if config.min_replies <= config.drawn:
        return []
    return [
        f"min-replies={config.min_replies} is more than the {config.drawn} clients of a round;"
        " lower it or raise participation"
    ]


def patience_needs_validation(config: RunConfig, lines: Lines) -> list[str]:
    """Early stopping goes by the validation loss."""
    if not config.patience or config.validation:
        return []
    return [f"patience={config.patience} needs validation data; set validation=0.1 or patience=0"]


def one_beginning(config: RunConfig, lines: Lines) -> list[str]:
    """A run continues another one or starts from it, not both."""
    if not (config.warm_start and config.resume):
        return []
    return [
        "warm-start and resume exclude each other: resume continues a run, warm-start begins a"
        " new one"
    ]


def known_device(config: RunConfig, lines: Lines) -> list[str]:
    """Torch would complain later, on every client."""
    if re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", config.device):
        return []
    return [f"device={config.device!r} is not known; write auto, cpu, cuda or cuda:N"]


def methods_that_go_together(config: RunConfig, lines: Lines) -> list[str]:
    """What the methods' own declarations say about each other."""
    return clashes(require(lines.methods, "methods"))


def weighting_that_methods_require(config: RunConfig, lines: Lines) -> list[str]:
    """A method may be sound with one weighting of the clients only."""
    methods = require(lines.methods, "methods")
    wanted = required_weighting(methods)
    if wanted is None or config.weighs == wanted:
        return []
    name = next(method.name for method in methods if method.weighting == wanted)
    if require(lines.dp, "dp").active:
        return [f"methods: {name} requires weighting={wanted!r}, but dp weighs all clients alike"]
    return [
        f"methods: {name} requires weighting={wanted!r}, not weighting={config.weighting!r}; write"
        " weighting='auto'"
    ]


RULES: tuple[Rule, ...] = (
    one_length_of_training,
    enough_clients_for_replies,
    patience_needs_validation,
    one_beginning,
    known_device,
    methods_that_go_together,
    weighting_that_methods_require,
)
