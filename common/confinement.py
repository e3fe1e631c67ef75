"""Keeps somebody's own code from using the network or starting a program while it is called."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from fedmirage.common.errors import ConfigurationError

# The audit events of Python that mean that code uses the network or starts a program.
LEAVES = (
    *("socket.", "urllib.", "ftplib.", "http.", "subprocess.", "os.system", "os.exec", "os.fork"),
    *("os.posix_spawn", "os.startfile"),
)
NETWORKS = "give a network's pretrained weights as initial-weights"


class _Confined(threading.local):
    """What a thread is calling that may not leave its process."""

    what = ""
    remedy = ""


_confined = _Confined()


@contextmanager
def confined(what: str, remedy: str = NETWORKS) -> Iterator[None]:
    """Let nothing in this block use the network or start a program, e.g. download weights.

    `remedy` tells whoever wrote the code what to do instead.
    """
    _watch()
    _confined.what, _confined.remedy = what, remedy
    try:
        yield
    finally:
        _confined.what = _confined.remedy = ""


@cache
def _watch() -> None:
    """Hear of every such attempt from now on; Python has no way to stop listening."""

    def hear(event: str, _: Any) -> None:
        if event.startswith(LEAVES) and _confined.what:
            raise ConfigurationError(
                f"{_confined.what} tried to use the network or to start a program ({event}), which"
                f" a run does not let it; fetch what it needs beforehand, and {_confined.remedy}"
            )

    sys.addaudithook(hear)
