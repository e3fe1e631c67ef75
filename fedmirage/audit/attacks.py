"""The attacks that there are: their parameters, and the run that each of them needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedmirage.audit.attack import Attack
from fedmirage.common.errors import refuse
from fedmirage.common.settings.language import resolve_line

if TYPE_CHECKING:
    from fedmirage.common.data.set import DataSet
    from fedmirage.common.settings.config import RunConfig

EVERY = "all"
MOST = 8  # images of a batch that can be told apart after an attack

Count = Annotated[int, Field(ge=1, le=10_000)]
Weight = Annotated[float, Field(ge=0)]


class Inversion(Attack):
    """Rebuilds a client's training images from its update, by matching gradients."""

    name: ClassVar[str] = "inversion"
    module: ClassVar[str] = "fedmirage.audit.inversion"
    settings: ClassVar[dict[str, Any]] = {"rounds": 1, "local_steps": 1, "batch_size": 1}

    matching: Literal["dlg", "cosine"] = "dlg"
    """What is compared with the gradient of the update: "dlg" minimises the squared distance with
    L-BFGS (Zhu et al., 2019), "cosine" minimises one minus the cosine, plus total variation, with
    Adam (Geiping et al., 2020)."""


ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in (Inversion,)}


def read_attacks(line: str) -> list[Attack]:
    """Read a line of attacks; "all" stands for each of them as it is by default."""
    if line.strip().lower() == EVERY:
        return [kind() for kind in ATTACKS.values()]
    attacks = resolve_line(line, {**ATTACKS}, "attack")
    names = [attack.name for attack in attacks]
    double = sorted({name for name in names if names.count(name) > 1})
    refuse([f"attack: {name!r} is listed more than once; keep one" for name in double])
    return attacks
