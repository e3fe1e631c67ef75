"""The command that repeats a run or a comparison: what differs from the defaults, quoted."""

import shlex
from collections.abc import Mapping
from typing import Any

from fedmirage.common.settings.config import RATES, defaults
from fedmirage.comparison.outcome import Outcome
from fedmirage.comparison.rows import FEDAVG, placebo_of

LEFT_OUT = {"out", "resume", "warm-start"}  # where results go, and where a run began


def repeat_run(config: Mapping[str, Any]) -> str:
    """Write the command of a run, from line 1 of its record."""
    return shlex.join(["fedmirage", "run", *_flags(config)])


def repeat_comparison(outcome: Outcome) -> str:
    """Write the command of a comparison, without learning rates that were chosen in it."""
    lines = [one.entry.name for one in outcome.standings if one.entry.is_line]
    methods = [name for name in lines if name not in outcome.placebos and name != FEDAVG]
    words = [word for name in methods for word in ("--methods", name)]
    words += ["--seeds", ",".join(map(str, outcome.seeds))]
    if not outcome.placebos and any(placebo_of(name) for name in methods):
        words.append("--no-controls")
    settings = outcome.settings.flat()
    kept = {key: value for key, value in settings.items() if key not in ("methods", "seed")}
    if kept["server-threads"] == 1:  # what a comparison takes by itself
        del kept["server-threads"]
    return shlex.join(["fedmirage", "compare", *words, *_flags(kept)])


def _flags(config: Mapping[str, Any]) -> list[str]:
    """Write every setting that is not the default."""
    words: list[str] = []
    for key, usual in defaults().items():
        if key == "lr":
            usual = RATES[config.get("optimizer", "sgd")]
        value = config.get(key, usual)
        if key in LEFT_OUT or value == usual:
            continue
        if isinstance(value, bool):
            words.append(f"--{key}" if value else f"--no-{key}")
        else:
            words += [f"--{key}", str(value)]
    return words
