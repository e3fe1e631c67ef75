"""What a node's own log says of a run; client/round.py says what it says of a round.

Nothing of it leaves the node. Only `fedmirage supernode` shows it: elsewhere nobody listens to this
logger.
"""

import logging

from fedmirage.common.data.view import ClientView
from fedmirage.common.settings.config import RunConfig

SHOWN = 12  # names of classes
log = logging.getLogger("fedmirage")


def note_run(config: RunConfig, view: ClientView, own_data: bool) -> None:
    """Say what a run does, and with which data of this node."""
    log.info(
        "run: %s, %d rounds, secagg %s, dp %s; this node trains on %s",
        *(config.methods, config.rounds, config.secagg, config.dp),
        describe_data(view, own_data),
    )


def describe_data(view: ClientView, own_data: bool) -> str:
    """Say how many samples of which classes a client trains on, and what the others are for."""
    data = view.dataset
    held = [name for name, count in zip(data.classes, view.class_counts, strict=True) if count]
    more = f" and {len(held) - SHOWN} more" if len(held) > SHOWN else ""
    text = f"{len(view.train)} samples of {data.name}, classes {', '.join(held[:SHOWN])}{more}"
    if len(view.validation):
        text += f"; {len(view.validation)} more are for validation"
    if own_data and len(data.test):
        held_out = "are held out and" if data.divided else "of its test split"
        text += f"; {len(data.test)} {held_out} only score models"
    if data.skipped:
        text += f"; {data.skipped} pictures could not be read and are left out (skip)"
    return text
