"""Settings that are valid alone but not together: a list of small functions, one per rule.

Each rule gets the valid part of the configuration, and its lines as far as they are readable. A
rule that reads a refused setting ends with `RefusedError` and adds nothing, because the user has
to correct that setting first. All other problems are still reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from fedmirage.common.learning.schedules import Constant
from fedmirage.common.method import clashes, required_weighting
from fedmirage.common.settings.lines import Lines
from fedmirage.common.settings.without_data import no_need_of_server_data

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig

T = TypeVar("T")
Rule = Callable[["RunConfig", Lines], list[str]]


class RefusedError(Exception):
    """A rule read a setting whose value was refused."""


def require(value: T | None, key: str) -> T:
    """Return the content of a readable line; the caller cannot continue without it."""
    if value is None:
        raise RefusedError(key)
    return value


def contradictions(config: RunConfig, lines: Lines) -> list[str]:
    """All objections of the rules, the methods, secagg and dp to these settings, as sentences."""
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
    """Steps and epochs both determine how long a client trains, so only one of them may."""
    if bool(config.local_steps) != bool(config.local_epochs):
        return []
    both = f"local-steps={config.local_steps} and local-epochs={config.local_epochs}"
    return [f"{both}: exactly one of them must be above 0, and the other 0"]


def one_schedule(config: RunConfig, lines: Lines) -> list[str]:
    """Both determine the learning rate of a round, so only one of them may."""
    schedule = require(lines.schedule, "schedule")
    if config.lr_decay == 1 or schedule == Constant():
        return []
    warmup = f", warmup={schedule.warmup}" if schedule.warmup else ""
    return [
        f"lr-decay={config.lr_decay:g} and schedule={config.schedule!r} each set the learning rate"
        " of a round; set lr-decay=1, or write"
        f' schedule="exponential(factor={config.lr_decay:g}{warmup})" alone'
    ]


def state_worth_keeping(config: RunConfig, lines: Lines) -> list[str]:
    """SGD without momentum remembers nothing."""
    if config.optimizer_state == "fresh" or config.optimizer != "sgd" or config.momentum:
        return []
    return [
        "optimizer-state='kept' keeps nothing: optimizer='sgd' with momentum=0 has no state; set"
        " momentum, choose adam or adamw, or write optimizer-state='fresh'"
    ]


def enough_clients_for_replies(config: RunConfig, lines: Lines) -> list[str]:
    """A round cannot have more replies than clients."""
    if config.min_replies <= config.drawn:
        return []
    return [
        f"min-replies={config.min_replies} is more than the {config.drawn} clients of a round;"
        " lower it or raise participation"
    ]


def patience_needs_validation(config: RunConfig, lines: Lines) -> list[str]:
    """Early stopping is decided by the validation loss."""
    if not config.patience or config.validation or not config.server_reads_data:
        return []
    return [f"patience={config.patience} needs validation data; set validation=0.1 or patience=0"]


def one_beginning(config: RunConfig, lines: Lines) -> list[str]:
    """A run may continue another one or start from it, but not both."""
    if not (config.warm_start and config.resume):
        return []
    return [
        f"warm-start={config.warm_start!r} and resume={config.resume!r} exclude each other: resume"
        " continues a run, warm-start begins a new one; drop one of them"
    ]


def known_device(config: RunConfig, lines: Lines) -> list[str]:
    """Torch would refuse an unknown device too, but later and on every client."""
    if re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", config.device):
        return []
    return [f"device={config.device!r} is unknown; write auto, cpu, mps, cuda or cuda:N"]


def methods_that_go_together(config: RunConfig, lines: Lines) -> list[str]:
    """The methods' own declarations say which of them clash."""
    return clashes(require(lines.methods, "methods"))


def weighting_that_methods_require(config: RunConfig, lines: Lines) -> list[str]:
    """Some methods are correct with only one weighting of the clients."""
    methods = require(lines.methods, "methods")
    wanted = required_weighting(methods)
    if wanted is None or config.weighs == wanted:
        return []
    name = next(method.name for method in methods if method.needs_weighting == wanted)
    if require(lines.dp, "dp").active:
        return [
            f"methods: {name} requires weighting={wanted!r}, but with dp all clients count"
            f" equally; drop {name} or dp"
        ]
    return [
        f"methods: {name} requires weighting={wanted!r}, not weighting={config.weighting!r}; write"
        " weighting='auto'"
    ]


def only_for_pictures(config: RunConfig, lines: Lines) -> list[str]:
    """Rows of a table and signals cannot be cropped, flipped or shown."""
    if all(params.pictures for params in require(lines.dataset, "dataset")):
        return []
    asked = {"augment": config.augment != "none", "save-images": config.save_images}
    off = {"augment": "'none'", "save-images": "false"}
    return [
        f"{key} is for pictures, and dataset={config.dataset!r} holds none; write {key}={off[key]}"
        for key, wanted in asked.items()
        if wanted
    ] + [problem for method in lines.methods or () for problem in method.check_inputs()]


def replies_to_put_into_files(config: RunConfig, lines: Lines) -> list[str]:
    """A server that sees sums only holds no replies."""
    if not config.reply_memory or not require(lines.secagg, "secagg").active:
        return []
    return [
        f"reply-memory={config.reply_memory} is for replies that the server sees, and with"
        f" secagg={config.secagg!r} it adds up masked vectors; write reply-memory=0"
    ]


def wire_as_it_is(config: RunConfig, lines: Lines) -> list[str]:
    """Secure aggregation and dp say bit by bit what leaves a client."""
    asked = f"wire={config.wire!r}"
    if config.wire == "float32":
        return []
    found = []
    if require(lines.secagg, "secagg").active:
        found.append(
            f"{asked} rounds differences, but secagg={config.secagg!r} sends whole numbers of its"
            " own, whose bits its keys set; write wire='float32'"
        )
    if require(lines.dp, "dp").active:
        found.append(
            f"{asked} changes an update after dp={config.dp!r} has bounded it; write wire='float32'"
        )
    return found


RULES: tuple[Rule, ...] = (
    one_length_of_training,
    one_schedule,
    state_worth_keeping,
    enough_clients_for_replies,
    patience_needs_validation,
    one_beginning,
    known_device,
    methods_that_go_together,
    weighting_that_methods_require,
    only_for_pictures,
    wire_as_it_is,
    no_need_of_server_data,
    replies_to_put_into_files,
)
