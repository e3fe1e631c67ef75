"""What a node's own log says of a run; client/round.py says what it says of a round.

Nothing of it leaves the node. Only `fedmirage supernode` shows it: elsewhere nobody listens to this
logger.
"""

import logging

from fedmirage.common.data.view import ClientView
from fedmirage.common.settings.config import RunConfig

SHOWN = 12  # names of classes
log = logging.getLogger("fedmirage")


def note_run(config: RunConfig, view: ClientView) -> None:
    """Say what a run does, and with which data of this node."""
    log.info(
        "run: %s, %d rounds, secagg %s, dp %s; this node trains on %s",
        *(config.methods, config.rounds, config.secagg, config.dp),
        describe_data(view),
    )


def describe_data(view: ClientView) -> str:
    """Say how many samples of which classes a client trains on, and what the others are for."""
    data = view.dataset
    held = [name for name, count in zip(data.classes, view.class_counts, strict=True) if count]
    more = f" and {len(held) - SHOWN} more" if len(held) > SHOWN else ""
    text = f"{len(view.train)} samples of {data.name}, classes {', '.join(held[:SHOWN])}{more}"
    if len(view.validation):
        text += f"; {len(view.validation)} more are for validation"
    if data.divided:  # the node's own data had no test split
        text += f"; {len(data.test)} are held out and only score local models"
    return text
