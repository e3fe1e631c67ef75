"""What an attack declares about itself, and what it finds; no torch, because --help reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from fedmirage.common.settings.language import Params

if TYPE_CHECKING:
    from fedmirage.audit.overheard import Overheard
    from fedmirage.common.data.set import DataSet
    from fedmirage.common.settings.config import RunConfig

Cell = str | float | int | None  # None is shown as "-"


@dataclass(frozen=True)
class AuditTable:
    """Numbers of an attack, one row per thing that was attacked."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class AuditPicture:
    """A PNG file beside the audit, and what it shows."""

    file: str  # its name in the folder of `Overheard.picture`
    caption: str


@dataclass(frozen=True)
class AuditFinding:
    """What an attack found: the answer in sentences, then what it rests on."""

    says: Sequence[str]
    tables: Sequence[AuditTable] = ()
    pictures: Sequence[AuditPicture] = ()
    numbers: dict[str, Any] = field(default_factory=dict)  # plain values, for programs


class Attack(Params):
    """One attack: its parameters, the run that it needs, and what it cannot be used on."""

    module: ClassVar[str]  # its function `carry_out` does the work
    # What its run is like where the user says nothing.
    settings: ClassVar[dict[str, Any]] = {}

    def check(self, config: RunConfig) -> list[str]:
        """Say in sentences why it cannot attack a run with these settings; none if it can."""
        return []

    def check_data(self, config: RunConfig, dataset: DataSet) -> list[str]:
        """Say in sentences why these data do not suffice; none if they do."""
        return []

    def arrange(self, config: RunConfig) -> RunConfig:
        """Change the settings of its run as no flag can, e.g. which samples are held out.

        What it writes goes to the folder of the run's pictures.
        """
        return config

    def carry_out(self, seen: Overheard) -> AuditFinding:
        """Attack what the server of a run has seen."""
        found: AuditFinding = import_module(self.module).carry_out(self, seen)
        return found
