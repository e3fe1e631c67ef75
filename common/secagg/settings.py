"""Secure aggregation: the keys of `--secagg`, the bit budget, and which methods it supports.

Every client hides its vector of whole numbers with masks that cancel in the sum: the server learns
the sum and nothing else. `on` is our own protocol (protocol.py), whose clients do not trust the
server; `flower` is Flower's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from fedmirage.common.settings.language import Params

if TYPE_CHECKING:
    from fedmirage.common.methods import Method
    from fedmirage.common.settings.config import RunConfig

LEAST = 3  # clients per sum: with two, each could subtract itself and learn the other's update
MOST = 300  # clients per round: everybody shares keys with everybody, which grows with the square
# The largest rounding error that is allowed in the update of a client with one example.
COARSEST = 1e-4
SUM_BITS = 53  # bits of a sum, as many as a double holds exactly


class SecAggParams(Params):
    """The base of all values of `secagg`."""

    active: ClassVar[bool] = True  # whether single updates are hidden from the server

    def check(self, config: RunConfig) -> list[str]:
        """Why these settings cannot run together, as sentences; none if they can."""
        found = [f"secagg: {reason}" for reason in map(self.why_not, config.method_list) if reason]
        if config.drawn < LEAST:
            found.append(
                f"secagg: a round has {config.drawn} of {config.clients} clients, but a sum of"
                f" fewer than {LEAST} reveals single updates; raise clients or participation"
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

    def why_not(self, method: Method) -> str | None:
        """Why a method cannot run with these settings, and what to do instead."""
        return why_not(method)

    def cautions(self) -> list[str]:
        """What is odd about these settings, though they can run."""
        return []

    def budget(self, drawn: int) -> str:
        """A sentence about the numbers that can be added up, printed at the start of a run."""
        raise NotImplementedError


class SecAggOff(SecAggParams):
    """The server sees every client's update."""

    name: ClassVar[str] = "off"
    active: ClassVar[bool] = False

    def check(self, config: RunConfig) -> list[str]:
        """Everything can run."""
        return []


class SecAggOn(SecAggParams):
    """The server sees the sum of the clients' updates, even if it breaks the rules."""

    name: ClassVar[str] = "on"

    renamed: ClassVar[dict[str, str]] = {"bound": "max_examples"}

    threshold: Annotated[float, Field(gt=0.5, lt=1)] = 0.67
    """Fraction of the clients drawn for a round that must stay to its end, and that together can
    open the masks of one; at least three clients and, of more than three, never all. It is more
    than half, so no two groups can open both masks of one client. More of them stand more
    accomplices of a dishonest server, fewer of them more losses (docs/security.md)."""
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
        found = super().check(config)
        if config.drawn > MOST:
            found.append(
                f"secagg: a round has {config.drawn} clients, and each would share keys with all"
                f" others; at most {MOST} are allowed, so lower participation to"
                f" {math.floor(100 * MOST / config.clients) / 100:g}"
            )
        if self.needed_bits(config.drawn) > SUM_BITS:
            most = SUM_BITS - config.drawn.bit_length()
            found.append(
                f"secagg: {config.drawn} clients x bits={self.bits} could overflow the"
                f" {SUM_BITS} bits of a sum; lower bits to {most}"
            )
        return found

    @property
    def step(self) -> float:
        """The distance between two neighbouring numbers that can be masked."""
        return float(2 * self.clip / 2**self.bits)

    def quorum(self, drawn: int) -> int:
        """How many clients a try and its sum need, and how many shares open a key (t).

        It depends on how many are drawn for a round, whatever the server says of a try.
        """
        return max(LEAST, min(math.ceil(self.threshold * drawn), drawn - 1))

    def losses(self, drawn: int) -> int:
        """How many of the drawn clients may be lost, so that the round still ends."""
        return drawn - self.quorum(drawn)

    def accomplices(self, drawn: int) -> int:
        """How many clients of the federation may help the server, so that no update is seen.

        Fewer than 2t - n, and two clients of a sum of t must be honest (docs/security.md).
        """
        quorum = self.quorum(drawn)
        return min(2 * quorum - drawn - 1, quorum - 2)

    def needed_bits(self, clients: int) -> int:
        """Bits of the largest possible sum over the given number of clients."""
        return int(clients * 2**self.bits).bit_length()

    def width(self, drawn: int) -> int:
        """Bytes of a masked number in a round of so many clients: enough to tell any sum."""
        return math.ceil(self.needed_bits(drawn) / 8)

    def budget(self, drawn: int) -> str:
        """A sentence about the bit budget and the threshold, printed at the start of a run."""
        return (
            f"secure aggregation: {drawn} clients x {self.bits} bits need"
            f" {self.needed_bits(drawn)} of {SUM_BITS}, so {self.width(drawn)} bytes per number;"
            f" numbers within +-{self.clip:g} in"
            f" steps of {self.step:.2g}; at most {self.max_examples} examples per client;"
            f" {self.losses(drawn)} of {drawn} clients may be lost, and"
            f" {self.accomplices(drawn)} may help a dishonest server"
        )


class SecAggFlower(SecAggParams):
    """Flower's own SecAgg+, unmodified; the keys and defaults are Flower's."""

    name: ClassVar[str] = "flower"

    num_shares: Annotated[float, Field(gt=0)] = 1.0
    """Shares of a client's keys, one for each of its neighbours: a fraction of the round's clients
    up to 1, or a number of 3 or more."""
    reconstruction_threshold: Annotated[float, Field(gt=0)] = 0.67
    """How many of them open a key: a fraction of the shares up to 1, or a number of 2 or more."""
    max_weight: Annotated[float, Field(gt=0)] = 1000.0
    """An upper bound on the examples of any client; one with more does not take part."""
    clipping_range: Annotated[float, Field(gt=0)] = 8.0
    """The largest absolute value that can be masked. A client whose weighted update contains a
    larger one says so and does not take part."""
    quantization_range: Annotated[int, Field(ge=2)] = 2**22
    """The number of steps in the range from -clipping_range to +clipping_range."""
    modulus_range: Annotated[int, Field(ge=4, le=2**32)] = 2**32
    """What masked numbers are counted modulo, a power of two."""

    @model_validator(mode="after")
    def _allowed(self) -> Self:
        for key, least in (("num_shares", LEAST), ("reconstruction_threshold", 2)):
            value = getattr(self, key)
            if value > 1 and (value != int(value) or value < least):
                raise ValueError(
                    f"{key}={value:g}: write a fraction up to 1, or a whole number of {least} or"
                    " more"
                )
        if self.modulus_range.bit_count() != 1 or self.modulus_range <= self.quantization_range:
            raise ValueError(
                f"modulus_range={self.modulus_range}: write a power of two above quantization_range"
            )
        return self

    def check(self, config: RunConfig) -> list[str]:
        """Why these settings cannot run with Flower's SecAgg+, as sentences; none if they can."""
        found = super().check(config)
        most = self.modulus_range // self.quantization_range
        if config.drawn > most:
            found.append(
                f"secagg: {config.drawn} clients x quantization_range={self.quantization_range}"
                f" could overflow modulus_range={self.modulus_range}; lower quantization_range"
            )
        if config.dp_params.active:
            found.append(
                f"secagg: flower cannot carry the noise and the bounds of dp={config.dp!r}; write"
                " secagg='on'"
            )
        return found

    def why_not(self, method: Method) -> str | None:
        """Why a method cannot run with Flower's SecAgg+: it must send nothing but the model."""
        names = " and ".join(repr(section.name) for section in method.up)
        more = (
            f"{method.name} sends {names} beside the model, which Flower's protocol cannot carry;"
            " write secagg='on'"
        )
        return why_not(method) or (more if names else None)

    def cautions(self) -> list[str]:
        """What this mode lacks."""
        return [
            "secagg=flower trusts the server to follow the rules; its masks come from seeds of 32"
            " bits, which 2^32 guesses open, and every client's number of examples is sent in"
            " clear; secagg=on has none of these gaps"
        ]

    def budget(self, drawn: int) -> str:
        """A sentence about the range of the numbers, printed at the start of a run."""
        return (
            f"secure aggregation: Flower's SecAgg+, numbers within +-{self.clipping_range:g} in"
            f" {self.quantization_range} steps; at most {self.max_weight:g} examples per client"
        )


SECAGG: dict[str, type[SecAggParams]] = {
    kind.name: kind for kind in (SecAggOff, SecAggOn, SecAggFlower)
}


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
