"""Lets the process of a ServerApp end with a sentence.

Flower learns that a run has failed only by an exception. It logs the traceback of every exception,
and then the number and a page of its own. A sentence for a person needs neither, so they are kept
out of the log; the exception still makes the run `finished:failed`, and Flower keeps the sentence
as the details of that status.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from fedmirage.common.errors import FedmirageError

NOISE = ("Exit Code:", "Traceback (most recent call last)", "An exception occurred !!")
flower = logging.getLogger("flwr")


class WithoutTraceback(logging.Filter):
    """Shows an error's sentence where Flower shows its traceback, and drops what follows."""

    def __init__(self, error: FedmirageError) -> None:
        super().__init__()
        self.error, self.told = error, False

    def filter(self, record: logging.LogRecord) -> bool:
        """Change a line, or drop it."""
        noise = record.getMessage().startswith(NOISE)
        if not record.exc_info and not noise:
            return True
        if self.told:
            return False
        self.told = True
        record.msg, record.args = f"the run failed: {self.error}", ()
        record.exc_info = record.exc_text = None
        return True


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Let Flower log the sentence of an error that a person can correct, and nothing else."""
    try:
        yield
    except FedmirageError as error:
        flower.addFilter(WithoutTraceback(error))
        raise
