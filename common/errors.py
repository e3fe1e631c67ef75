"""Errors that a user reads: sentences that name the key, the value and the fix."""

import contextlib
import errno
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeGuard

TRACEBACK = "traceback.txt"  # in the folder of a run: where the first exception in its code arose
LONGEST = 160  # characters of an exception's text
FULL = (errno.ENOSPC, errno.EDQUOT)  # nothing is left of the disk, or of the user's share of it


class FedmirageError(Exception):
    """An error that the user can correct; it is printed without a stack trace, exit code 1."""


class ConfigurationError(FedmirageError):
    """A problem of a configuration, or all of them at once."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type["ConfigurationError"], tuple[list[str]]]:
        return type(self), (self.problems,)


def list_problems(error: FedmirageError) -> list[str]:
    """List the sentences of an error, of which a configuration may have several."""
    return error.problems if isinstance(error, ConfigurationError) else [str(error)]


@contextlib.contextmanager
def collect(problems: list[str], where: str = "") -> Iterator[None]:
    """Add what the block is refused for to other problems, each with its place in front."""
    try:
        yield
    except ConfigurationError as error:
        problems += [f"{where}{problem}" for problem in error.problems]


def refuse(problems: Sequence[str]) -> None:
    """Raise all problems at once, each of them once; none are no reason to."""
    if problems:
        raise ConfigurationError(list(dict.fromkeys(problems)))


def say_kind(thing: object) -> str:
    """Say of what type something is: "an int"."""
    name = type(thing).__name__
    article = "an" if name[0] in "aeiouAEIOU" or name == "ndarray" else "a"
    return f"{article} {name}"


class DataError(FedmirageError):
    """Data that are missing, corrupt, or not what their description promises."""


class WireError(FedmirageError):
    """A message whose content does not match its layout or the model."""


def is_disk_full(error: BaseException) -> TypeGuard[OSError]:
    """Whether something could not be written because a disk is full."""
    return isinstance(error, OSError) and error.errno in FULL


def reason(error: BaseException) -> str:
    """Say what an exception says; of the system's errors, the file and the reason, no numbers."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}"


def keep_traceback(error: BaseException, file: Path) -> str:
    """Write the traceback of an exception to a file; return one line that names both.

    The first one stays: those that follow are mostly the same mistake on other clients.
    """
    with contextlib.suppress(OSError), file.open("x") as kept:
        kept.write("".join(traceback.format_exception(error)))
    text = " ".join(str(error).split())
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return f"{type(error).__name__}{': ' * bool(shown)}{shown} (the first traceback is in {file})"
