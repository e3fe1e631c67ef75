"""What Ctrl-C does to the processes of a node before Flower handles it, and if it comes twice.

A terminal sends it to all of them. Loading takes seconds, in which Python would answer with a stack
trace per process. Each is therefore started with these signals blocked (`undisturbed`), and
unblocks them once its own handlers are installed. When Flower begins to end a process, it restores
these handlers, so that a second Ctrl-C ends it at once.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

from fedmirage.runtimes.interrupts import INTERRUPTIONS

TOLD = b"interrupted: the node ends at once\n"


def end_silently() -> None:
    """Let Ctrl-C end this process, even where a shell started the node in the background.

    Flower sends SIGINT, once, to a process whose parent is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


def end_with_a_sentence() -> None:
    """Let Ctrl-C and kill end this process, which is the node, with a sentence."""
    for number in INTERRUPTIONS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End without an exception, which an import or one of Flower's threads might swallow."""
    try:
        os.write(2, TOLD)
    finally:  # the terminal may be closed
        os._exit(128 + number)
