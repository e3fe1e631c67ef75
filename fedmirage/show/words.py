"""Texts as they are, and durations in words."""

from rich.console import Console


def say(console: Console, text: object, style: str = "") -> None:
    """Print a text as it is on one line, so that a path in it can be copied."""
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def say_time(seconds: float) -> str:
    """Write a duration in the unit that suits it."""
    for limit, unit, size in ((90, "s", 1), (90 * 60, "min", 60), (48 * 3600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"
