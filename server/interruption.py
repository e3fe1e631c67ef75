"""Lets a run hear of the end of its process before Flower does.

Flower's handler of a signal reports to the SuperLink first. If that is what has ended, the report
is tried again until there is another SuperLink, and meanwhile the run would neither have its last
line nor leave its folder to whoever continues it.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def heard_first() -> Iterator[None]:
    """Turn the first signal into a KeyboardInterrupt, and hand it to Flower when the block is left.

    In a simulation of Flower's the server is no process of its own, and hears of no signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not heard:  # another one must not disturb the cleaning up
            heard.append(number)
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if heard:
            signal.raise_signal(heard[0])
