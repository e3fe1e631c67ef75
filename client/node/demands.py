"""What a node insists on, whatever the server's configuration says.

    flower-supernode --node-config 'partition-id=0 require="secagg, dp(noise>=2)" budget=8'

`require` lists what a run must have, separated by commas: secagg (which means `on`), secagg-flower
(which allows Flower's protocol as well), dp, central or local, each with conditions in parentheses
if wanted (`dp(noise>=2, clip<=1)`). `budget` is the largest epsilon that
this node may spend over all runs together, at `budget-delta` (1e-5 unless it is set). A run that
asks for less protection, or for more than is left, is refused with a sentence, and gets nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedmirage.common.dp.accounting import compose_gaussians
from fedmirage.common.dp.ledger import Ledger
from fedmirage.common.dp.settings import CentralDp, DpOn, LocalDp
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.secagg.settings import SecAggFlower, SecAggOn, SecAggParams
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import Params, nearest, split

KINDS: dict[str, type[Params]] = {
    "secagg": SecAggOn,
    "secagg-flower": SecAggFlower,
    "dp": DpOn,
    "central": CentralDp,
    "local": LocalDp,
}
KEYS = {"require", "budget", "budget-delta"}
CONDITION = re.compile(r"\s*([a-z_]+)\s*(>=|<=)\s*([0-9.eE+-]+)\s*")
COMPARE = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Condition:
    """One comparison, for example noise>=2."""

    key: str
    sign: str
    bound: float

    def holds(self, params: Params) -> bool:
        """Whether a run's setting satisfies it."""
        return bool(COMPARE[self.sign](getattr(params, self.key), self.bound))


@dataclass(frozen=True)
class Demand:
    """One name of `require`, with its conditions."""

    text: str
    kind: type[Params]
    conditions: tuple[Condition, ...]

    def is_met(self, config: RunConfig) -> bool:
        """Whether a run has the setting, with values that satisfy every condition."""
        if not issubclass(self.kind, SecAggParams):
            return self.fits(config.dp_params)
        has = config.secagg_params
        stronger = self.kind is SecAggFlower and isinstance(has, SecAggOn)
        return stronger or self.fits(has)

    def fits(self, has: Params) -> bool:
        """Whether this is the setting that is asked for, with such values."""
        return isinstance(has, self.kind) and all(one.holds(has) for one in self.conditions)


@dataclass(frozen=True)
class Demands:
    """Everything that one node insists on; by default nothing."""

    required: tuple[Demand, ...] = ()
    budget: float | None = None  # epsilon
    delta: float = 1e-5

    def check(self, config: RunConfig, ledger: Path) -> None:
        """Refuse a run that gives less protection, or a release for which no budget is left.

        The file of the node's releases is only read if there is a budget to compare them with.
        """
        unmet = [demand.text for demand in self.required if not demand.is_met(config)]
        if unmet:
            raise FedmirageError(
                f"this node requires {' and '.join(unmet)}, but the run has"
                f" secagg={config.secagg!r} and dp={config.dp!r}"
            )
        if self.budget is not None:
            self.check_budget(config, Ledger(ledger))

    def check_budget(self, config: RunConfig, ledger: Ledger) -> None:
        """Refuse a run that spends without counting, or more than is left."""
        dp = config.dp_params
        if not isinstance(dp, DpOn):
            raise FedmirageError(
                f"this node has a privacy budget of epsilon {self.budget:g}, and a run with"
                f" dp={config.dp!r} spends without limit"
            )
        spent = [float(entry["multiplier"]) for entry in ledger.entries]
        after = compose_gaussians([*spent, dp.multiplier], self.delta)
        if self.budget is not None and after > self.budget:
            raise FedmirageError(
                f"this node's privacy budget is epsilon {self.budget:g} at delta {self.delta:g}; it"
                f" has answered {len(spent)} times, and the next answer would make it"
                f" {after:.4g}"
            )


def read_demands(node_config: Mapping[str, Any]) -> Demands:
    """Read `require`, `budget` and `budget-delta` of a node's configuration."""
    if not KEYS & node_config.keys():
        return Demands()
    problems: list[str] = []
    text = str(node_config.get("require", ""))
    required = [_read(piece, problems) for piece in split(text)]
    budget = _number("budget", node_config.get("budget"), problems)
    delta = _number("budget-delta", node_config.get("budget-delta"), problems)
    if delta is not None and not 0 < delta < 1:
        problems.append(f"budget-delta={delta:g}: write a number between 0 and 1")
    if problems:
        raise ConfigurationError([f"node-config: {problem}" for problem in problems])
    found = tuple(demand for demand in required if demand is not None)
    return Demands(found, budget, 1e-5 if delta is None else delta)


def _read(piece: str, problems: list[str]) -> Demand | None:
    """Read one name with its conditions; what cannot be read is never taken as satisfied."""
    name, bracket, rest = piece.partition("(")
    name = name.strip().lower()
    if name not in KINDS:
        problems.append(f"require={piece!r}: nothing is called {name!r}{nearest(name, KINDS)}")
        return None
    inside = rest.strip().removesuffix(")") if bracket else ""
    if bracket and not rest.strip().endswith(")"):
        problems.append(f"require={piece!r}: a parenthesis is not closed")
        return None
    kind, conditions = KINDS[name], []
    for part in split(inside):
        match = CONDITION.fullmatch(part)
        bound = _number("require", match[3], problems) if match else None
        numeric = [key for key, info in kind.model_fields.items() if info.annotation is not str]
        if match is None or bound is None:
            problems.append(f"require={piece!r}: cannot read {part!r}; write e.g. noise>=2")
        elif match[1] not in numeric:
            where = nearest(match[1], numeric)
            problems.append(f"require={piece!r}: {name} has no key {match[1]!r}{where}")
        else:
            conditions.append(Condition(match[1], match[2], bound))
    return Demand(piece, kind, tuple(conditions))


def _number(key: str, value: Any, problems: list[str]) -> float | None:
    """Read a positive number; None if the key is not set."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 <= number < float("inf"):
        problems.append(f"{key}={value!r}: write a number that is not negative")
        return None
    return number
