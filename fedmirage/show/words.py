"""Texts as they are, durations in words, plain tables, and a choice of what there is room for."""

import logging
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Table


def say(console: Console, text: object, style: str = "") -> None:
    """Print a text as it is on one line, so that a path in it can be copied."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def muted(*names: str, level: int = logging.CRITICAL) -> Iterator[None]:
    """Let loggers say only what is grave, until the block ends."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, usual in zip(loggers, before, strict=True):
            logger.setLevel(usual)


def make_table(columns: Sequence[str], numbers: Collection[str], title: str | None = None) -> Table:
    """Make a table without lines; columns of numbers are aligned at the right and never wrapped."""
    empty = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        right = name in numbers
        empty.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return empty


def write_command(variables: Mapping[str, str], words: Sequence[str]) -> str:
    """Write a command, with the variables that it needs, so that a shell can read it."""
    pairs = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    return " ".join([*pairs, shlex.join(words)])


def spread_out(length: int, limit: int) -> list[int]:
    """Return at most `limit` positions, evenly spread, the first and the last among them."""
    if length <= limit:
        return list(range(length))
    return sorted({round(step * (length - 1) / max(1, limit - 1)) for step in range(limit)})


def say_time(seconds: float) -> str:
    """Write a duration in the unit that suits it."""
    for limit, unit, size in ((90, "s", 1), (90 * 60, "min", 60), (48 * 3600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"
