"""A turn of work before a client's first round, for methods that declare `prepares`."""

import time
from collections.abc import Sequence
from dataclasses import replace
from logging import WARNING
from statistics import fmean

from flwr.common import Scalar, log

from fedmirage.client.node.redaction import tell
from fedmirage.client.objective import Objective
from fedmirage.client.round import LocalClient
from fedmirage.common.methods import Method
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.metrics import ERROR
from fedmirage.common.wire.preparation import Preparation


def prepare(
    local: LocalClient, objectives: Sequence[Objective[Method]], seconds: float
) -> dict[str, Scalar]:
    """Let the methods work for about so many seconds; return how far they are, or why they failed.

    The notes of a run that hides single clients stay in this client's log.
    """
    until = time.monotonic() + seconds
    try:
        parts = [
            objective.prepare_client(local, until)
            for objective in objectives
            if objective.params.prepares
        ]
    except Exception as error:
        return {ERROR: tell(error)}
    turn = join(parts)
    if turn.finished and turn.seconds:
        for note in turn.notes:
            log(WARNING, "%s", note)
    return (replace(turn, notes=()) if hides_clients(local.config) else turn).write()


def join(parts: Sequence[Preparation]) -> Preparation:
    """Add up what several methods did; each counts as the same share of the work."""
    if not parts:
        return Preparation()
    notes = tuple(note for part in parts for note in part.notes)
    done = 1.0 if all(part.finished for part in parts) else fmean(part.done for part in parts)
    return Preparation(done, notes, sum(part.seconds for part in parts))


def hides_clients(config: RunConfig) -> bool:
    """Whether the server must learn nothing about a single client."""
    return config.secagg_params.active or config.dp_params.active
