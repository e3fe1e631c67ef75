"""What a method's page declares, and which combinations are sound because of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from common.settings.language import Params

if TYPE_CHECKING:
    from common.settings.config import RunConfig

Shares = Literal["model", "extractor", "classifier", "generator and classifier", "nothing"]
Weighting = Literal["examples", "uniform"]


@dataclass(frozen=True)
class Section:
    """A named part of a message, beside `shared`."""

    name: str
    weighting: Weighting | Literal["run"] | None = "examples"
    # how it is averaged over clients; "run": as the run weighs `shared`; None: it must be seen one
    # by one
    holds: Literal["weights", "number"] | None = "weights"
    # what arrives is checked against it: an array for each trainable shared weight, one number, or
    # None: the method checks
    sensitivity: float | None = None
    # under differential privacy a client's section is scaled to this length; 0: it says nothing
    # about the data; None: no bound

    @property
    def summable(self) -> bool:
        """Only its sum matters, and so it survives secure aggregation."""
        return self.weighting is not None


class Method(Params):
    """A method's page: who wrote it, what it sends, what it needs. The fields of a subclass are its
    parameters."""

    title: ClassVar[str]
    authors: ClassVar[str]
    link: ClassVar[str]

    shares: ClassVar[Shares] = "model"  # what FedAvg averages
    replaces_data: ClassVar[bool] = False  # clients train on other data than their own
    server_rule: ClassVar[bool] = False  # changes how the average becomes the next model
    repairs: ClassVar[bool] = False  # changes the global model once more after the server's update
    needs_whole_model: ClassVar[bool] = (
        False  # must see all weights on the server or on every client
    )
    single_label_because: ClassVar[str] = (
        ""  # why it is not defined for multi-label tasks, as half a sentence; "": it is
    )
    up: ClassVar[tuple[Section, ...]] = ()  # what clients send beside `shared`
    down: ClassVar[tuple[Section, ...]] = ()  # what the server sends beside `shared`
    figures: ClassVar[
        tuple[str, ...]
    ] = ()  # what its client half may report: "term.NAME" of its terms, and names of its own;
    # in a secure sum, who has none counts as 0
    summable_instead: ClassVar[str] = (
        ""  # what to write where only sums may be seen and a section of `up` has to be seen alone
    )

    def extra_outputs(self, classes: int) -> int:
        """How many outputs this method adds to the head of a model for `classes` classes."""
        return 0

    def check(self, config: RunConfig) -> list[str]:
        """Why this method cannot run with these settings, as sentences; none if it can."""
        return []

    def cautions(self, config: RunConfig) -> list[str]:
        """What is odd about these settings though it can run, as sentences."""
        return []


def clashes(methods: Sequence[Method]) -> list[str]:
    """Why these methods may not stand in one line; empty if they may."""
    problems: list[str] = []
    names = [method.name for method in methods]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"methods: {name!r} stands {names.count(name)} times; once is enough")
    sections = [section.name for method in methods for section in method.up]
    for name in sorted({name for name in sections if sections.count(name) > 1}):
        problems.append(f"methods: two of them send a section called {name!r}; keep one")
    rules = [method.name for method in methods if method.server_rule]
    if len(rules) > 1:
        problems.append(f"methods: {' and '.join(rules)} each change the server's update; keep one")
    for place, repair in enumerate(methods):
        for rule in methods[place + 1 :] if repair.repairs else ():
            if rule.server_rule:
                problems.append(
                    f"methods: {rule.name} changes the server's update, which {repair.name} repairs"
                    f" afterwards; write {rule.name} left of {repair.name}"
                )
    parts = {method.name: method.shares for method in methods if method.shares != "model"}
    if len(parts) > 1:
        what = " and ".join(f"{name} ({share})" for name, share in parts.items())
        problems.append(f"methods: {what} each decide what is shared; keep one")
    for name, share in list(parts.items())[:1]:
        for method in methods:
            if method.needs_whole_model:
                problems.append(
                    f"methods: {method.name} needs the whole model, but {name} shares only:"
                    f" {share}; drop one of them"
                )
            elif share == "nothing" and method.server_rule:
                problems.append(
                    f"methods: {method.name} changes the server's update, but {name} sends it"
                    " nothing; drop one of them"
                )
            elif share == "nothing" and (method.up or method.down):
                what = " and ".join(section.name for section in (*method.down, *method.up))
                problems.append(
                    f"methods: {method.name} exchanges {what}, but {name} exchanges nothing; drop"
                    " one of them"
                )
    return problems
