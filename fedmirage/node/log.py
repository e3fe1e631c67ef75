"""The log of a node, for people: its own lines, and of Flower's only what somebody must know.

With --verbose, it has all of Flower's lines, with the ids of messages.
"""

import logging
import os

VERBOSE = "FEDMIRAGE_VERBOSE"  # the variable with which the processes of a node learn of --verbose
log = logging.getLogger("fedmirage")


def open_log(of_flower: int) -> None:
    """Show the node's own lines, and those of Flower from a level on, or all with --verbose."""
    from flwr.common.logger import update_console_handler

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    if not os.environ.get(VERBOSE):
        update_console_handler(level=of_flower)
