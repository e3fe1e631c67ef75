"""How many gradients a round of SGD amounts to: FedNova and SCAFFOLD divide by this number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig


def effective_steps(steps: int, momentum: float) -> float:
    """FedNova's a_i: the total weight that SGD with momentum gives to the gradients of its steps.

    With momentum m, the gradient of step k of t counts 1 in step k and m, m^2, ... in the later
    steps, together (1 - m^(t-k+1)) / (1 - m). Without momentum, a_i is the number of steps.
    """
    if momentum == 0:
        return float(steps)
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


def check_sgd(config: RunConfig, name: str, reads: str) -> list[str]:
    """Refuse every optimiser but SGD that starts afresh, for a method that `reads` its steps."""
    if config.optimizer != "sgd":
        return [
            f"methods: {name} {reads} of SGD, but optimizer={config.optimizer!r}; write"
            " optimizer='sgd' or drop it"
        ]
    if config.optimizer_state == "fresh":
        return []
    return [
        f"methods: {name} divides a client's movement by the gradients of one round, but"
        " optimizer-state='kept' adds momentum of earlier rounds to it; write 'fresh'"
    ]
