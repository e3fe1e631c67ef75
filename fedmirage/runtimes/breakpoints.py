"""breakpoint() in a run: the debugger talks to the terminal of the command that started the run.

The process of a run has a session of its own, and its output goes to a file, so Python's own
debugger would find nobody to talk to.
"""

import os
import pdb
import sys
import time
from collections.abc import Callable
from typing import Any

PAUSE = 0.3  # seconds in which the progress display makes room


def copy_terminal() -> list[int]:
    """Copy this process's standard input and output for a child; none if they are closed."""
    try:
        return [os.dup(0), os.dup(1)]
    except OSError:
        return []


class Debugger:
    """Takes the place of `sys.breakpointhook` in the process of a run."""

    def __init__(self, tell: Callable[..., None], terminal: list[int]) -> None:
        self.tell, self.terminal = tell, terminal
        self.pdb: pdb.Pdb | None = None  # one for all breakpoints, because it may have read ahead

    def __call__(self, *_: Any, **__: Any) -> None:
        """Stop in the code that called breakpoint()."""
        self.tell(breakpoint=True)
        time.sleep(PAUSE)
        if self.pdb is None:
            source, target = self.terminal
            self.pdb = pdb.Pdb(stdin=os.fdopen(source), stdout=os.fdopen(target, "w"))
        self.pdb.set_trace(sys._getframe(1))
