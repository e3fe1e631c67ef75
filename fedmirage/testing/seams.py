"""Which pairs of methods meet, and where: read off their declarations and the hooks they override.

Two methods meet if both act on every batch, if both wrap the server's strategy, or if one changes
the model or the data under the other's hands. Methods that do not meet cannot disturb each other.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from fedmirage.client.objective import Objective
from fedmirage.common.method import Method, clashes
from fedmirage.common.methods import METHODS, half
from fedmirage.common.settings.language import resolve_line
from fedmirage.runtimes.quick import line
from fedmirage.server.strategy.wrapper import StrategyWrapper

Pair = tuple[str, str]
CLASSES = 10  # of the digits, which all pairs are tried on


def hooks(base: type) -> dict[str, Callable[..., Any]]:
    """The hooks of a half; `idle` only reports."""
    return {
        name: hook
        for name, hook in vars(base).items()
        if isinstance(hook, FunctionType) and not name.startswith("_") and name != "idle"
    }


def arguments(hook: Callable[..., Any]) -> list[str]:
    """Name what a hook gets."""
    return list(inspect.signature(hook).parameters)[1:]


CLIENT, SERVER = hooks(Objective), hooks(StrategyWrapper)
BATCH = {name for name, hook in CLIENT.items() if "step" in arguments(hook)}
# A hook that gets what the methods before it have made: the order of two methods matters there.
NESTED = {name for name, hook in CLIENT.items() if len(arguments(hook)) > 1} | {*SERVER}


def overridden(kind: type | None, base: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """Select the hooks that a half overrides."""
    return {
        name: getattr(kind, name)
        for name, hook in base.items()
        if kind is not None and getattr(kind, name) is not hook
    }


@dataclass(frozen=True)
class Seams:
    """What other methods can notice of a method."""

    method: Method
    client: dict[str, Any]  # the hooks that its halves override
    server: dict[str, Any]

    @property
    def changes_model(self) -> bool:
        """Whether it adds parts or outputs, or chooses what is trained or sent."""
        return self.method.parts.chooses or self.method.extra_outputs(CLASSES) > 0

    def of(self, other: "Seams") -> list[str]:
        """The places where this method acts on what the other one does, in words."""
        found = []
        if self.client.keys() & BATCH and other.client.keys() & BATCH:
            found.append(f"every batch ({', '.join(sorted(self.client.keys() & BATCH))})")
        if self.server and other.server:
            found.append(f"the server's strategy ({', '.join(sorted(self.server))})")
        if self.changes_model and (other.client or other.server):
            found.append("the parts or outputs of the model")
        if self.method.replaces_data and other.client:
            found.append("the clients' data")
        return found


@cache
def seams(name: str) -> Seams:
    """Read the seams of a method off its declaration and halves."""
    (method,) = resolve_line(line(name), METHODS, "methods")
    client, server = half("client", method, Objective), half("server", method, StrategyWrapper)
    return Seams(method, overridden(client, CLIENT), overridden(server, SERVER))


def meeting(pair: Pair) -> list[str]:
    """Say where two methods meet; nowhere if neither can notice the other."""
    one, other = map(seams, pair)
    return [f"{pair[0]} at {place}" for place in one.of(other)] + [
        f"{pair[1]} at {place}" for place in other.of(one)
    ]


def order_matters(pair: Pair) -> bool:
    """Whether one of the two gets what the other has made."""
    one, other = ({*seams(name).client, *seams(name).server} for name in pair)
    return bool(one & other & NESTED)


def problems(names: Iterable[str]) -> list[str]:
    """Say why these methods may not stand in one line."""
    return clashes([seams(name).method for name in names])


def where_to_look(pair: Pair) -> str:
    """What to read, and what to run, when a pair fails."""
    line_of_both = ", ".join(map(line, pair))
    places = "; ".join(meeting(pair)) or "nowhere that their declarations or hooks show"
    files = " ".join(
        f"{side}/methods/{name.replace('-', '_')}"
        for side in ("client", "server")
        for name in pair
        if name in METHODS.ours and getattr(seams(name), side)
    )
    return (
        f"{' and '.join(pair)} meet: {places}.\nRead {files or 'common/methods'}, and run:"
        f' fedmirage run --runtime inprocess --methods "{line_of_both}"'
    )
