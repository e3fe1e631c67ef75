"""How many gradients a round of SGD adds up to: what FedNova normalises by, and SCAFFOLD divides
by."""


def effective_steps(steps: int, momentum: float) -> float:
    """a_i of FedNova: the sum of the weights that momentum SGD gives to the gradients of `steps`
    steps; `steps` without momentum.

    The gradient of step k moves the weights in step k and, by m, m^2, ..., in every later one: (1 -
    m^(t-k+1)) / (1 - m) in all.
    """
    if momentum == 0:
        return float(steps)
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
