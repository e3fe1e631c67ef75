"""What a node says when something fails: a sentence, and nothing of its data.

Flower sends the type and the text of an exception to the server, and logs its traceback. Such a
text may quote a label, a path or a value, so it stays in the node's own log. Only sentences about
the run's settings and messages travel.

Where one person's host runs server and clients, nothing has to be kept from the server, and nobody
reads a node's log. There the runtime names a file in FEDMIRAGE_TRACEBACK, which gets the first
traceback, and the exception itself is told. Nobody sets this variable on a deployed node.
"""

import os
from logging import ERROR, WARNING
from pathlib import Path

from flwr.common import log

from fedmirage.common.errors import DataError, FedmirageError, is_disk_full, keep_traceback

UNUSABLE_DATA = "its data cannot be used; its own log says why"
FAILURE = "its code raised an exception; its own log says why"
VARIABLE = "FEDMIRAGE_TRACEBACK"


def tell(error: Exception) -> str:
    """Say what the server may know of an error, and write the rest into the node's log."""
    if isinstance(error, FedmirageError) and not isinstance(error, DataError):
        log(WARNING, "this node does not take part: %s", error)
        return str(error)
    if is_disk_full(error):
        log(ERROR, "%s", error)  # which names the file
        return f"its disk is full ({error.strerror}); free some space there"
    file = os.environ.get(VARIABLE)
    # A person can correct data by the sentence alone; anything else needs the place in the code.
    if isinstance(error, DataError):
        log(ERROR, "%s: %s", UNUSABLE_DATA, error)
        return str(error) if file else UNUSABLE_DATA
    log(ERROR, "%s: %s", FAILURE, error, exc_info=error)
    return f"its code raised {keep_traceback(error, Path(file))}" if file else FAILURE
