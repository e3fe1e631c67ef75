"""Recorded bits belong to the locked pair of torch and torchvision; other pairs round otherwise."""

from importlib.metadata import version

import pytest

from fedmirage.common.settings.project import ROOT

PAIR = ("torch", "torchvision")


def pinned(lock: str) -> dict[str, str]:
    """The pair that a lock file names."""
    pins = dict(line.split("==") for line in lock.splitlines() if "==" in line and line[0] != "#")
    return {name: pins[name] for name in PAIR}


LOCKED = pinned((ROOT / "deploy" / "locks" / "3.11.lock").read_text())
# Without "+cpu" or "+cu130": a build is no other version, and lock files leave it out too.
INSTALLED = {name: version(name).partition("+")[0] for name in PAIR}


def named(pair: dict[str, str]) -> str:
    return " and ".join(f"{name} {number}" for name, number in pair.items())


only_with_the_locked_pair = pytest.mark.skipif(
    INSTALLED != LOCKED,
    reason=f"these bits were recorded with {named(LOCKED)}, and this is {named(INSTALLED)}",
)
