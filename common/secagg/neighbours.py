"""How many neighbours a client needs in a secure round, so that its keys are safe among them.

If all clients are neighbours, the work of a round grows with the square of their number. SecAgg+
(Bell et al., CCS 2020) gives each client a few neighbours at random instead. What may then go wrong
has a probability that is computed here, and the number of neighbours is the smallest for which it
is small enough. A client's neighbourhood is drawn from the others without replacement, so the
number of accomplices or of lost clients in it has a hypergeometric distribution; "some client"
costs a factor of the number of clients.

All numbers are whole, so that every machine comes to the same result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

ACCOMPLICES = Fraction(1, 10)  # gamma: the fraction of a round's clients that help the server
LOST = Fraction(1, 10)  # delta: the fraction that may be lost while training
SAFETY_BITS = 40  # sigma: some honest client has too many accomplices around it with 2^-sigma
SUCCESS_BITS = 20  # eta: some client has too many lost neighbours with at most 2^-eta
COMPLETE = 64  # up to so many clients, all are neighbours: fewer would save little
FEWEST = 51  # neighbours, of which 13 may be accomplices whatever the circle


@dataclass(frozen=True)
class KeyPlan:
    """Into how many shares a client's keys are split in a round, and how many recover a key.

    Every neighbour has one, and the client itself counts as its own neighbour.
    """

    shares: int
    threshold: int

    @classmethod
    def of(cls, shares: int, fraction: float) -> KeyPlan:
        """The plan in which this fraction of the shares recovers a key; never all of them."""
        return cls(shares, min(math.ceil(fraction * shares), shares - 1))

    @property
    def accomplices(self) -> int:
        """How many accomplices a neighbourhood may have: fewer than threshold - shares / 2."""
        return math.ceil(self.threshold - self.shares / 2) - 1

    @property
    def losses(self) -> int:
        """How many of a client's neighbours may be lost."""
        return self.shares - self.threshold


@lru_cache
def plan_neighbours(clients: int, fraction: float) -> KeyPlan:
    """The plan with the fewest neighbours that are enough; a circle needs an odd number of them."""
    for shares in range(FEWEST, clients, 2) if clients > COMPLETE else ():
        plan = KeyPlan.of(shares, fraction)
        exposed, failed = risk_of_exposure(clients, plan), risk_of_failure(clients, plan)
        if exposed * 2**SAFETY_BITS <= 1 and failed * 2**SUCCESS_BITS <= 1:
            return plan
    return KeyPlan.of(clients, fraction)


def risk_of_exposure(clients: int, plan: KeyPlan, part: Fraction = ACCOMPLICES) -> Fraction:
    """Bound the probability that some honest client has too many accomplices around it."""
    helpers = math.floor(part * clients)
    return (clients - helpers) * tail(clients - 1, helpers, plan.shares - 1, plan.accomplices + 1)


def risk_of_failure(clients: int, plan: KeyPlan, part: Fraction = LOST) -> Fraction:
    """Bound the probability that some client has too few neighbours left."""
    lost = math.floor(part * clients)
    return clients * tail(clients - 1, lost, plan.shares - 1, plan.losses + 1)


def tail(all_others: int, marked: int, drawn: int, least: int) -> Fraction:
    """The probability that of so many drawn from all others at least `least` are marked."""
    most = min(marked, drawn)
    ways = sum(
        math.comb(marked, found) * math.comb(all_others - marked, drawn - found)
        for found in range(max(0, least), most + 1)
    )
    return Fraction(ways, math.comb(all_others, drawn))
