"""Differential privacy: what `--dp` may say, and which settings go with it. Read alike by server
and clients.

What is protected is a client with all its data: from all that is released one can hardly tell them
from other data. A client scales its update of `shared` to a length of at most `clip`, and Gaussian
noise of `noise` times `clip` covers it:

    central   the server adds it to the sum of a round's updates: protects the model that it sends
              out from everybody else
    local     every client adds it to its own update, and sends nothing else: protects it from the
              server too

Methods that send anything beside the update are refused: how far one client can move that is not
bounded. The budget (epsilon, delta) is counted in server/strategy/budget.py. It does not cover
whether a client is there, answers and has data to train on, nor what the server of a central run
writes down of its clients in results.jsonl. Noise is drawn in double precision and rounded with the
weights to theirs; the budget is that of real numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from common.secagg.settings import SecAggOn
from common.settings.language import Params

if TYPE_CHECKING:
    from common.settings.config import RunConfig

FARTHEST = 7  # deviations beyond which no noise is expected: once in 10^11 numbers


class DpParams(Params):
    """The params of `dp`."""

    active: ClassVar[bool] = False

    def check(self, config: RunConfig) -> list[str]:
        """Why these settings cannot run together, as sentences; none if they can."""
        return []

    def cautions(self, config: RunConfig) -> list[str]:
        """What is odd about these settings though they can run, as sentences."""
        return []


class DpOff(DpParams):
    """Updates are sent as they are."""

    name: ClassVar[str] = "off"


class DpOn(DpParams):
    """What central and local have in common."""

    active: ClassVar[bool] = True

    clip: Annotated[float, Field(gt=0)]
    """C: the greatest Euclidean length of a client's update; longer ones are scaled down to it."""
    noise: Annotated[float, Field(ge=0)]
    """z: the noise's standard deviation is z times clip, on the sum of a round's updates (central)
    or on each of them (local). 0 clips only, and protects nobody."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """delta of the budget; far below one over the number of clients."""

    @property
    def multiplier(self) -> float:
        """The noise, measured in what one client can change: exchanging all its data moves the sum
        of the updates by at most twice clip."""
        return self.noise / 2

    def check(self, config: RunConfig) -> list[str]:
        """Whatever clients send must be bounded."""
        problems = []
        for method in config.method_list:
            if unbounded := [repr(section.name) for section in method.up]:
                problems.append(
                    f"dp: {method.name} sends {' and '.join(unbounded)} beside the model, and how"
                    f" far one client can move that is not bounded; drop {method.name} or dp, or"
                    " use methods that send the model only, e.g. fedprox or fedavgm"
                )
            if not method.parts.sends:
                problems.append(
                    f"dp: with {method.name} clients send nothing that could be protected; drop one"
                    " of the two"
                )
        return problems

    def cautions(self, config: RunConfig) -> list[str]:
        """What the budget does not say, or says only under conditions."""
        found = []
        if config.weighting == "examples":
            found.append(
                f"dp: all clients weigh alike, so weighting={config.weighting!r} is not used"
            )
        if not self.noise:
            found.append("dp: noise=0 bounds the updates and hides nothing: the budget is infinite")
        if self.delta >= 1 / config.clients:
            found.append(
                f"dp: delta={self.delta:g} is no less than 1/{config.clients}: giving away one"
                " client whole would satisfy it; lower delta"
            )
        if config.warm_start:
            found.append(
                "dp: the budget counts this run alone; what the clients spent on the model that it"
                " begins from comes on top"
            )
        return found


class CentralDp(DpOn):
    """Clients clip, the server noises the sum: they trust it, and need not trust whoever gets the
    model."""

    name: ClassVar[str] = "central"

    def check(self, config: RunConfig) -> list[str]:
        """A method that reads single replies would learn from updates without noise."""
        return super().check(config) + [
            f"dp: {method.name} looks at each client's {seen}, which central noise does not cover;"
            f" {method.summable_instead or 'drop one of the two, or use local(...)'}"
            for method in config.method_list
            if (seen := method.needs_each_client) and not method.up
        ]

    def cautions(self, config: RunConfig) -> list[str]:
        """The server's own records are not covered, and the draw must stay its secret."""
        found = super().cautions(config)
        if config.drawn < config.clients:
            found.append(
                "dp: the budget counts on nobody knowing who is drawn, and the draw follows from"
                f" seed={config.seed}; keep seed and results.jsonl to yourself, and choose a seed"
                " that cannot be guessed"
            )
        if config.validation:
            found.append(
                "dp: the budget does not count validation: best.safetensors and early stopping go"
                " by unprotected losses"
            )
        return found


class LocalDp(DpOn):
    """Every client noises its own update: nobody need be trusted, at the price of much more noise
    in the average."""

    name: ClassVar[str] = "local"

    def check(self, config: RunConfig) -> list[str]:
        """Nothing but the update may leave a client."""
        asked = {
            "validation": bool(config.validation),
            "diagnostics": config.diagnostics,
            "local-evaluation": config.local_evaluation,
        }
        problems = super().check(config)
        reach = self.clip * (1 + FARTHEST * self.noise)
        if isinstance(config.secagg_params, SecAggOn) and reach > config.secagg_params.clip:
            problems.append(
                f"dp: a noised update reaches to +-{reach:.3g}, and secagg masks numbers within"
                f" +-{config.secagg_params.clip:g}; "
                f'write secagg="on(clip={math.ceil(reach)})", or lower clip or noise'
            )
        return problems + [
            f"dp: {key} would tell the server about each client's data, which local(...) is there"
            f" to prevent; drop {key}, or use central(...)"
            for key, wanted in asked.items()
            if wanted
        ]


DP: dict[str, type[DpParams]] = {kind.name: kind for kind in (DpOff, CentralDp, LocalDp)}
