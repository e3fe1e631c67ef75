"""What a client's optimiser remembers from round to round, if optimizer-state says "kept".

It lies in the client's memory, and follows its rule: if a reply came too late to count, the
optimiser goes on from the round before. A warm start goes on with the state of its parent, as far
as that has one for the same optimiser and parameter. The learning rate is no part of it. The server
tells each client the last round in which its reply counted. A client that has no memory of the run
by then has lost it, and says so.
"""

from logging import WARNING

import torch
from flwr.common import log

from fedmirage.client.round import LocalRound
from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.optimizers import restore_state, save_state
from fedmirage.common.wire.figures import AFRESH

PREFIX = "optimizer."


def recall(local: LocalRound, optimizer: torch.optim.Optimizer) -> None:
    """Let a new optimiser go on where that of this client's last round ended."""
    if local.config.optimizer_state != "kept":
        return
    local.report[AFRESH] = float(local.memory.lost)
    if local.memory.lost:
        text = "round %s: the optimiser of client %s starts afresh: this node has lost its memory"
        log(WARNING, f"{text} of the run", local.number, local.partition)
    saved = [local.memory.get(key) or [] for key in keys(local)]
    for key, arrays, weight in zip(keys(local), saved, local.trainable(), strict=True):
        if bad := [array.shape for array in arrays if array.shape not in ((), weight.shape)]:
            raise FedmirageError(
                f"this client remembers {key!r} with the shape {bad[0]}, but its parameter has"
                f" {tuple(weight.shape)}; start with optimizer-state='fresh'"
            )
    restore_state(optimizer, saved)


def remember(local: LocalRound, optimizer: torch.optim.Optimizer) -> None:
    """Keep what the optimiser knows for this client's next round, or forget an older one's."""
    local.memory.forget(PREFIX)
    if local.config.optimizer_state == "kept":
        for key, arrays in zip(keys(local), save_state(optimizer), strict=True):
            local.memory.put(key, arrays)


def keys(local: LocalRound) -> list[str]:
    """Name what is remembered about every trained parameter."""
    return [f"{PREFIX}{local.config.optimizer}.{name}" for name in local.trained_parameters()]
