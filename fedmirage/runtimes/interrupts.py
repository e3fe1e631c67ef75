"""Handles Ctrl-C, kill and a closed terminal for the command line.

In another program that uses fedmirage, such as a notebook, signals are left to that program.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAUSE = 10.0  # seconds; a terminal that is closed sends more than one signal


class Interruptions:
    """Turns these signals into KeyboardInterrupt; further ones soon after are ignored.

    This way a second signal does not disturb the cleaning up.
    """

    def __init__(self) -> None:
        self.last = float("-inf")
        self.told = False  # whether the user has been told how to continue

    @property
    def seen(self) -> bool:
        """Whether there was a signal; KeyboardInterrupt itself may get lost, e.g. in an import."""
        return self.last > float("-inf")

    def install(self) -> None:
        """Install the handlers, except for signals that are ignored (nohup, a background job)."""
        for number in INTERRUPTIONS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let the block itself tell the user how to continue, if it is interrupted."""
        try:
            yield
        except KeyboardInterrupt:
            self.told = True
            raise

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.last > PAUSE:
            self.last = now
            raise KeyboardInterrupt


interruptions = Interruptions()  # of this process
