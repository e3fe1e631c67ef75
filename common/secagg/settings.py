"""Secure aggregation: the keys of `--secagg`, the bit budget, and which methods it supports.

Flower's SecAgg+ adds up integer vectors modulo a power of two. Every client hides its vector with
masks that cancel in the sum: the server learns the sum and nothing else. vector.py makes the
vector, masks.py the masks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fedmirage.common.secagg.neighbours import KeyPlan, plan_neighbours
from fedmirage.common.settings.language import Params

if TYPE_CHECKING:
    from fedmirage.common.methods import Method
    from fedmirage.common.settings.config import RunConfig

LEAST = 3  # clients per sum: with two, each could subtract itself and learn the other's update
# The largest rounding error that is allowed in the update of a client with one example.
COARSEST = 1e-4
REFUSAL = "refusal"  # the record in which a client says why it does not take part
# Bits of a sum, as many as a double holds exactly; a masked number is sent as 64 bits anyway.
MODULUS_BITS = 53
# The defaults of `threshold`: if all clients are neighbours, and if only some are.
AMONG_ALL, AMONG_SOME = 0.67, 0.75

Part = Annotated[float, Field(gt=0, le=1)]


class SecAggParams(Params):
    """The base of all values of `secagg`."""

    def check(self, config: RunConfig) -> list[str]:
        """Why these settings cannot run together, as sentences; none if they can."""
        return []


class SecAggOff(SecAggParams):
    """The server sees every client's update."""

    name: ClassVar[str] = "off"


class SecAggOn(SecAggParams):
    """The server sees the sum of the clients' updates."""

    name: ClassVar[str] = "on"

    renamed: ClassVar[dict[str, str]] = {"bound": "max_examples", "shares": "neighbour_share"}

    neighbour_share: Part | None = None
    """The fraction of the round's clients that act as neighbours of a client: it shares masks with
    them and gives each a share of its keys. 1 means all. By default all clients are neighbours in
    rounds of up to 64; in larger ones there are as many neighbours as are safe if a tenth of the
    clients help a dishonest server and a tenth is lost (docs/security.md). If you set it, a client
    has at least 2 log2(clients) + 1 neighbours, and nobody computes what that is safe against."""
    threshold: Annotated[float, Field(gt=0.5, lt=1)] | None = None
    """Fraction of a client's key shares that is needed to open its masks, and so the fraction of
    its neighbours that must stay to the end; at most all shares but one are needed. It is more than
    half, so that no two groups can open both masks of one client. By default it is 0.67 if all
    clients are neighbours, which holds even if nearly a third of them help a dishonest server, and
    0.75 otherwise, because a few neighbours may by chance hold more accomplices than their share
    (docs/security.md)."""
    clip: Annotated[float, Field(gt=0)] = 8.0
    """The largest absolute value that can be masked. A client whose weighted update contains a
    larger one says so and does not take part in the round."""
    bits: Annotated[int, Field(ge=16, le=48)] = 40
    """Bits per masked number; the step between two neighbouring numbers is 2 clip / 2^bits."""
    max_examples: Annotated[int, Field(ge=1)] = 65536
    """An upper bound on the examples of any client. Weights are sent masked as n_i / max_examples,
    because nobody may learn the largest n_i; a client with more examples does not take part."""

    @model_validator(mode="after")
    def _fine_enough(self) -> Self:
        error = self.step * self.max_examples
        if error > COARSEST:
            raise ValueError(
                f"clip={self.clip:g}, bits={self.bits} and max_examples={self.max_examples} would"
                f" round the update of a client with one example to {error:.2g}; raise bits, or"
                " lower max_examples or clip"
            )
        return self

    def check(self, config: RunConfig) -> list[str]:
        """Why these settings cannot run with secure aggregation, as sentences; none if they can."""
        found = [f"secagg: {reason}" for reason in map(why_not, config.method_list) if reason]
        if config.drawn < LEAST:
            found.append(
                f"secagg: a round has {config.drawn} of {config.clients} clients, but a sum of"
                f" fewer than {LEAST} reveals single updates; raise clients or participation"
            )
        if self.needed_bits(config.drawn) > MODULUS_BITS:
            most = MODULUS_BITS - config.drawn.bit_length()
            found.append(
                f"secagg: {config.drawn} clients x bits={self.bits} could overflow the"
                f" {MODULUS_BITS} bits of a sum; lower bits to {most}"
            )
        if config.validation:
            found.append(
                f"secagg: validation={config.validation:g} would show the server each client's loss"
                " and number of samples; set validation=0"
            )
        if config.diagnostics:
            found.append(
                "secagg: diagnostics look at single clients, but the server sees only their sum;"
                " drop diagnostics"
            )
        return found

    @property
    def step(self) -> float:
        """The distance between two neighbouring numbers that can be masked."""
        return float(2 * self.clip / 2**self.bits)

    def key_plan(self, clients: int) -> KeyPlan:
        """How a round shares its keys; a circle needs an odd number of shares, or all clients."""
        if self.neighbour_share is None:
            plan = plan_neighbours(clients, self.threshold or AMONG_SOME)
        else:
            shares = max(
                math.ceil(self.neighbour_share * clients), 2 * math.ceil(math.log2(clients)) + 1
            )
            shares = min(clients, shares + (shares % 2 == 0))
            plan = KeyPlan.of(shares, self.threshold or AMONG_SOME)
        return plan if plan.shares < clients else KeyPlan.of(clients, self.threshold or AMONG_ALL)

    def resolve(self, clients: int) -> Self:
        """These settings with what their defaults stand for in a round of so many clients."""
        shares = self.key_plan(clients).shares
        threshold = self.threshold or (AMONG_ALL if shares == clients else AMONG_SOME)
        return self.model_copy(update={"neighbour_share": shares / clients, "threshold": threshold})

    def least(self, drawn: int) -> int:
        """How many of the `drawn` clients must stay to the end, so that none is singled out."""
        return max(LEAST, drawn // 2 + 1)

    def needed_bits(self, clients: int) -> int:
        """Bits of the largest possible sum over the given number of clients."""
        return int(clients * 2**self.bits).bit_length()

    def budget(self, clients: int) -> str:
        """A sentence about the bit budget, printed at the start of a run."""
        plan = self.key_plan(clients)
        return (
            f"secure aggregation: {clients} clients x {self.bits} bits need"
            f" {self.needed_bits(clients)} of {MODULUS_BITS}; numbers within +-{self.clip:g} in"
            f" steps of {self.step:.2g}; at most {self.max_examples} examples per client; at least"
            f" {self.least(clients)} clients; {plan.threshold} of {plan.shares} key shares open a"
            " lost client's masks"
        )


SECAGG: dict[str, type[SecAggParams]] = {kind.name: kind for kind in (SecAggOff, SecAggOn)}


def why_not(method: Method) -> str | None:
    """Why a method cannot run under secure aggregation, and what to do instead; None if it can."""
    shapeless = [
        repr(section.name) for section in method.up if section.summable and section.holds is None
    ]
    instead = method.summable_instead or "drop one of the two"
    if alone := method.needs_each_client:
        return (
            f"{method.name} needs each client's {alone} one by one, but the server"
            f" sees only sums; {instead}"
        )
    if shapeless:
        return (
            f"{method.name} sends {' and '.join(shapeless)} without declaring the shape, which a"
            f" sum needs; {instead}"
        )
    return None
