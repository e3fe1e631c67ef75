"""How many gradients a round of SGD amounts to: FedNova and SCAFFOLD divide by this number."""


def effective_steps(steps: int, momentum: float) -> float:
    """FedNova's a_i: the total weight that SGD with momentum gives to the gradients of its steps.

    With momentum m, the gradient of step k of t counts 1 in step k and m, m^2, ... in the later
    steps, together (1 - m^(t-k+1)) / (1 - m). Without momentum, a_i is the number of steps.
    """
    if momentum == 0:
        return float(steps)
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
