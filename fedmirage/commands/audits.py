"""`fedmirage audit`: what the messages of a method give away."""

import time
from pathlib import Path
from typing import Any

from fedmirage.audit.attacks import ATTACKS
from fedmirage.commands.console import out
from fedmirage.commands.flags import flag
from fedmirage.commands.told import Flags
from fedmirage.commands.work import pick_settings, show_page
from fedmirage.runtimes.interrupts import interruptions
from fedmirage.settings.layers import RUNS, read_layers
from fedmirage.show.words import say

LEFT_OUT = ("methods", "out", "resume", "warm_start")  # settings that an audit decides itself


def audit_flags() -> Flags:
    """Make the flags that only an audit has."""
    methods = "A methods line to attack; may be given several times."
    attacks = f"The attacks: {', '.join(ATTACKS)}, or all; e.g. \"inversion(matching='cosine')\"."
    place = "Folder of the audit; empty means runs/audit-..., named after the time."
    return {
        "methods": flag(list[str], ["fedavg"], methods),
        "attack": flag(str, "all", attacks),
        "out": flag(str, "", place, show_default=False),
        "report": flag(bool, True, "Write report.html, a page about the audit, into its folder."),
    }


def audit(**given: Any) -> None:
    """Attack what methods send, as a server that is honest but curious could.

    Runs a few rounds in this process, keeps the messages that the server sees, and attacks them:
    images are rebuilt from updates, and members of the training data are told from others. Every
    attack has a run of its own, with settings that suit it where you say nothing.

    Example: fedmirage audit --methods fedavg --methods fedmd-cg --attack inversion --batch-size 2
    """
    from fedmirage.audit.command import audit as carry_out
    from fedmirage.audit.plan import make_plan

    asked = {**dict.fromkeys(LEFT_OUT), **given}
    settings = {key: one for key, one in pick_settings(asked).items() if key not in LEFT_OUT}
    folder = Path(given["out"] or RUNS / time.strftime("audit-%Y%m%d-%H%M%S")).absolute()
    layers = read_layers(given["preset"], given["config"])
    plan = make_plan(layers, settings, given["methods"], given["attack"], folder)
    try:
        with interruptions.telling():
            audited = carry_out(plan, out, given["verbose"])
    except KeyboardInterrupt:
        say(out, f"interrupted; {folder} has what was found before; use another --out for the rest")
        raise
    if given["report"] and audited.found:
        show_page(folder)
    audited.complain()
