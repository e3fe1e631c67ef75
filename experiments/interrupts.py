"""Ctrl-C, kill and a closed terminal, for the command line. In somebody else's program, such as a
notebook, signals are the business of that program."""

import signal
import time
from types import FrameType

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAUSE = 10.0  # seconds; a terminal that is closed sends more than one signal


class Interruptions:
    """All of them as KeyboardInterrupt; what follows soon does not disturb the clearing up."""

    def __init__(self) -> None:
        self.last = float("-inf")
        self.told = False  # whether somebody has said how to go on

    @property
    def seen(self) -> bool:
        """Whether there was one. KeyboardInterrupt itself may get lost, e.g. in an import."""
        return self.last > float("-inf")

    def install(self) -> None:
        """Take them over, except for those that are ignored (nohup, a shell's background)."""
        for number in INTERRUPTIONS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.last > PAUSE:
            self.last = now
            raise KeyboardInterrupt


interruptions = Interruptions()  # of this process
