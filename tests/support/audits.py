"""Small audits for tests."""

from pathlib import Path
from typing import Any

from fedmirage.audit.attack import Attack, AuditFinding
from fedmirage.audit.overheard import Overheard, overhear
from fedmirage.common.settings.config import configure

TINY: dict[str, Any] = {
    "dataset": "digits(limit=410, size=8)",
    "partition": "iid",
    "clients": 2,
    "rounds": 2,
    "model": "mlp(hidden=16, layers=1)",
    "local_epochs": 1,
    "batch_size": 32,
    "server_threads": 1,
}


def listen(attack: Attack, out: Path, **settings: Any) -> Overheard:
    """Do the run that an attack needs."""
    return overhear(attack.arrange(configure(TINY, {"out": str(out), **settings})))


def attack_run(attack: Attack, out: Path, **settings: Any) -> AuditFinding:
    """Do the run that an attack needs, and attack it."""
    return attack.carry_out(listen(attack, out, **settings))
