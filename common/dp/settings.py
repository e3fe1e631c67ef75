"""Differential privacy: the keys of `--dp`, and the settings that it can be combined with.

It protects a client with all its data: what is released would look much the same with other data.
A client scales its update of `shared` down to a length of at most `clip`, and Gaussian noise with
a standard deviation of `noise` times `clip` covers it:

    central   The server adds the noise to the sum of a round's updates. This protects the clients
              from everybody who gets the model, but not from the server.
    local     Every client adds the noise to its own update, and sends nothing else. This protects
              the clients from the server too.

Methods that send anything beside the update are refused, because one client's influence on it is
not bounded. The budget (epsilon, delta) is computed in server/strategy/budget.py. It does not cover
whether a client is present, answers and has data to train on, nor what the server of a central run
writes about its clients to results.jsonl. The budget is derived for real numbers, whereas the noise
is drawn in double precision and rounded to the precision of the weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.settings.language import Params

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig

FARTHEST = 7  # standard deviations; noise is larger only once in about 10^11 numbers


class DpParams(Params):
    """The base of all values of `dp`."""

    active: ClassVar[bool] = False

    @property
    def secret_draw(self) -> bool:
        """Whether the budget counts on nobody knowing which clients are drawn."""
        return False

    def check(self, config: RunConfig) -> list[str]:
        """Why these settings cannot run together, as sentences; none if they can."""
        return []

    def cautions(self, config: RunConfig) -> list[str]:
        """What the user should know about these settings, although they can run, as sentences."""
        return []


class DpOff(DpParams):
    """Updates are sent unchanged."""

    name: ClassVar[str] = "off"


class DpOn(DpParams):
    """The keys of both central and local."""

    active: ClassVar[bool] = True

    clip: Annotated[float, Field(gt=0)]
    """C: the largest Euclidean length of a client's update; longer updates are scaled down to
    it."""
    noise: Annotated[float, Field(ge=0)]
    """z: the standard deviation of the noise is z times clip, on the sum of a round's updates
    (central) or on each update (local). 0 only clips and protects nobody."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """delta of the budget; it should be far below one over the number of clients."""

    @property
    def multiplier(self) -> float:
        """The noise relative to one client's influence.

        Exchanging all data of a client changes the sum of the updates by at most twice clip.
        """
        return self.noise / 2

    def check(self, config: RunConfig) -> list[str]:
        """Everything that clients send must be bounded."""
        problems = []
        for method in config.method_list:
            if unbounded := [repr(section.name) for section in method.up]:
                problems.append(
                    f"dp: {method.name} sends {' and '.join(unbounded)} beside the model, and one"
                    f" client's influence on that is not bounded; drop {method.name} or dp, or use"
                    " methods that send the model only, e.g. fedprox or fedavgm"
                )
            if not method.parts.sends:
                problems.append(
                    f"dp: with {method.name} clients send nothing that could be protected; drop one"
                    " of the two"
                )
        return problems

    def cautions(self, config: RunConfig) -> list[str]:
        """What the budget leaves out, or what it depends on."""
        found = []
        if config.weighting == "examples":
            found.append(
                f"dp: all clients count equally, so weighting={config.weighting!r} is not used"
            )
        if not self.noise:
            found.append(
                "dp: noise=0 bounds the updates but hides nothing, so the budget is infinite"
            )
        if self.delta >= 1 / config.clients:
            found.append(
                f"dp: delta={self.delta:g} is not below 1/{config.clients}, so even publishing all"
                " data of one client would satisfy it; lower delta"
            )
        if config.partition_params.shares_samples:
            found.append(
                f"dp: the budget protects one client, and with partition={config.partition!r} a"
                " sample may belong to several; it does not hold for a sample"
            )
        if config.warm_start:
            found.append(
                "dp: the budget covers this run only; add what the clients have already spent on"
                f" the model of warm-start={config.warm_start!r}"
            )
        return found


class CentralDp(DpOn):
    """The server adds noise to the sum of clipped updates: clients must trust it, but no others."""

    name: ClassVar[str] = "central"

    @property
    def secret_draw(self) -> bool:
        """Without noise nothing is counted, and the draw may be repeatable."""
        return self.noise > 0

    def check(self, config: RunConfig) -> list[str]:
        """A method that reads single replies would learn from updates without noise."""
        return super().check(config) + [
            f"dp: {method.name} reads each client's {needed}, which central noise does not cover;"
            f" {method.summable_instead or 'drop one of the two, or use local(...)'}"
            for method in config.method_list
            if (needed := method.needs_each_client) and not method.up
        ]

    def cautions(self, config: RunConfig) -> list[str]:
        """The budget does not cover validation, and counts on a draw that stays secret."""
        found = super().cautions(config)
        if self.secret_draw and config.drawn < config.clients:
            found.append(
                "dp: the budget counts on nobody knowing which clients were drawn. The draw comes"
                " from the system's generator and not from seed, but results.jsonl lists it; keep"
                " that file secret"
            )
        if config.validation:
            found.append(
                "dp: the budget does not cover validation: best.safetensors and early stopping"
                " depend on unprotected losses"
            )
        return found


class LocalDp(DpOn):
    """Each client adds noise to its update: nobody need be trusted, but there is far more noise."""

    name: ClassVar[str] = "local"

    def check(self, config: RunConfig) -> list[str]:
        """A client may send nothing but its update."""
        asked = {
            "validation": bool(config.validation),
            "diagnostics": config.diagnostics,
            "local-evaluation": config.local_evaluation,
        }
        problems = super().check(config)
        reach = self.clip * (1 + FARTHEST * self.noise)
        if isinstance(config.secagg_params, SecAggOn) and reach > config.secagg_params.clip:
            problems.append(
                f"dp: a noised update reaches +-{reach:.3g}, but secagg masks only numbers within"
                f" +-{config.secagg_params.clip:g}; "
                f'write secagg="on(clip={math.ceil(reach)})", or lower clip or noise'
            )
        return problems + [
            f"dp: {key} would tell the server about each client's data, which local(...) must"
            f" prevent; drop {key}, or use central(...)"
            for key, wanted in asked.items()
            if wanted
        ]


DP: dict[str, type[DpParams]] = {kind.name: kind for kind in (DpOff, CentralDp, LocalDp)}
