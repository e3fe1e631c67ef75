"""The folder of a run: which process may write into it, and whether anything is left to do."""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import remove_drafts
from fedmirage.common.errors import (
    TRACEBACK,
    ConfigurationError,
    FedmirageError,
    is_disk_full,
    keep_traceback,
    reason,
)
from fedmirage.common.settings.config import RunConfig
from fedmirage.server.record import checkpoint
from fedmirage.server.record.results import FACTS, FILE, Results, find_versions, read_results

ENDINGS = (KeyboardInterrupt, SystemExit)  # what ends a run from outside
LOCK = ".lock"  # holds the id of the process that writes into the folder
PATIENCE = 3.0  # seconds to wait for another writer that is about to end
# What may change when a run is resumed: how far and where it runs, not its results.
MOVABLE = {"resume", "rounds", "node-timeout", "round-timeout", "retries", "reply-memory"}
MOVABLE |= {"device", "data-dir"}
PLACES = {"out", "warm-start"}  # a resumed run has its folder, and no longer its beginning


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Make this process the only writer of a folder.

    The operating system releases the claim when the process ends, however that happens.
    """
    with say_if_full(folder):
        make_folder(folder)
        file = (folder / LOCK).open("a+b", buffering=0)  # nothing is left to write when it closes
    with file:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    file.seek(0)
                    owner = file.read().decode().strip() or "unknown"
                    raise FedmirageError(
                        f"process {owner} is writing into {folder}; wait until it ends, end it, or"
                        " choose another folder"
                    ) from None
                time.sleep(0.1)
        with say_if_full(folder):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        for place in (folder, folder / "models", *folder.glob("memory/*/client-*")):
            remove_drafts(place)
        yield


@contextmanager
def say_if_full(folder: Path) -> Iterator[None]:
    """Turn the system's error about a full disk into a sentence."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise FedmirageError(explain(error, folder)) from None


def make_folder(folder: Path) -> None:
    """Make a folder for results, unless it is there."""
    require_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)


def make_vacant(usual: Path) -> Path:
    """Make a folder that no other run has, with a number if the name is taken."""
    require_writable(usual)
    for number in count(1):
        folder = usual.with_name(f"{usual.name}-{number}") if number > 1 else usual
        with suppress(FileExistsError), say_if_full(folder):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("there is always another number")


def require_writable(folder: Path) -> None:
    """Refuse a folder that can neither be written nor made."""
    there = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    if not there.is_dir():
        problem = f"{there} is a file"
    elif not os.access(there, os.W_OK | os.X_OK):
        problem = f"this user may not write into {there}"
    else:
        return
    raise ConfigurationError(f"out={str(folder)!r}: {problem}; choose another folder")


def is_mistake(error: BaseException) -> bool:
    """Whether the run ends because of a mistake in its code, which no sentence explains."""
    return isinstance(error, Exception) and not isinstance(error, FedmirageError | OSError)


def explain(error: BaseException, folder: Path) -> str:
    """Say why a run ends; the system does not always say where a disk is full."""
    if is_mistake(error):
        return f"the server's code raised {keep_traceback(error, folder / TRACEBACK)}"
    if isinstance(error, ENDINGS):
        return "the server's process was told to end, by somebody or because its SuperLink ended"
    if not is_disk_full(error):
        return reason(error) or repr(error)
    begun = (folder / checkpoint.FILE).exists()
    rest = f"continue with: fedmirage run --resume {folder}" if begun else "start the run again"
    return (
        f"{error.strerror} while writing {error.filename or folder}; free some space there, then"
        f" {rest}"
    )


def require_vacant(config: RunConfig, folder: Path) -> None:
    """Refuse to overwrite the rounds of another run.

    A folder without a checkpoint and with at most one round in its results holds nothing of value.
    """
    used = len(Results(folder).lines()) > 1 or (folder / checkpoint.FILE).exists()
    if used and not config.resume:
        raise ConfigurationError(
            f"out={str(folder)!r} holds the results of another run; choose another folder,"
            " or continue it with --resume"
        )


def require_same_settings(config: RunConfig, folder: Path) -> None:
    """Refuse to continue a run with other settings: its rounds would not belong together."""
    begun = next(iter(read_results(folder / FILE)), {}) if config.resume else {}
    require_known_settings(config, begun)
    # Where the length of the run decides the learning rates, earlier rounds depend on it too.
    fixed = {"rounds"} if config.schedule_params.spans_run else set()
    movable = (MOVABLE - fixed) | PLACES
    kept = {key: value for key, value in config.flat().items() if key not in movable}
    changed = [key for key, value in kept.items() if begun.get(key, value) != value]
    if changed:
        values = ", ".join(f"{key}={kept[key]!r} (it was {begun[key]!r})" for key in changed)
        values += f", over which schedule={config.schedule!r} runs" * ("rounds" in changed)
        raise ConfigurationError(
            f"resume={config.resume!r} continues a run with its own settings, but you gave"
            f" {values}; leave that out, or use warm-start to start a new run from it"
        )


def require_known_settings(config: RunConfig, begun: Mapping[str, Any]) -> None:
    """Refuse to continue a run of another version whose settings mean nothing here."""
    unknown = begun.keys() - config.flat().keys() - FACTS
    if unknown:
        values = ", ".join(f"{key}={begun[key]!r}" for key in sorted(unknown))
        writer = begun.get("versions", {}).get("fedmirage", "of unknown version")
        raise ConfigurationError(
            f"resume={config.resume!r} was begun by fedmirage {writer} with {values}, which"
            f" fedmirage {find_versions()['fedmirage']} does not know; continue it with the"
            " version that began it"
        )


def find_finished(config: RunConfig, folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run that should be resumed but has nothing left to do."""
    if not config.resume:
        return None
    summary = next(iter(read_results(folder / FILE)[-1:]), {})
    if summary.get("status") != "finished":
        return None
    over = summary.get("stopped_early") or summary["rounds"] >= config.rounds
    return summary if over else None


def say_finished(summary: dict[str, Any]) -> str:
    """Say why nothing is started, and what would change that."""
    if summary.get("stopped_early"):
        return f"this run stopped early after round {summary['rounds']} (patience); nothing is left"
    return f"this run finished after round {summary['rounds']}; raise --rounds to go on"
