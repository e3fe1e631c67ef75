"""The command that repeats a run or a comparison: what differs from the defaults, quoted."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedmirage.common.settings.config import RATES, defaults
from fedmirage.comparison.outcome import Outcome
from fedmirage.comparison.plan import QUESTION
from fedmirage.comparison.rows import FEDAVG, LOCAL, placebo_of

LEFT_OUT = {"out", "resume", "warm-start"}  # where results go, and where a run began


def repeat_run(config: Mapping[str, Any]) -> str:
    """Write the command of a run, from line 1 of its record or from its settings."""
    return shlex.join(["fedmirage", "run", *flags_of(config)])


def repeat_comparison(outcome: Outcome, seeds: Sequence[int] = ()) -> str:
    """Write the command of a comparison, without learning rates that were chosen in it.

    Other seeds than its own make it a command that goes on with it, in its folder.
    """
    lines = [one.entry.name for one in outcome.standings if one.entry.is_line]
    question = outcome.question
    own = {FEDAVG, question.baseline} | outcome.placebos
    methods = [name for name in lines if name not in own] or [FEDAVG]
    words = [word for name in methods for word in ("--methods", name)]
    words += ["--seeds", ",".join(map(str, seeds or outcome.seeds))]
    for key, value in asdict(question).items():
        words += [f"--{key}", value] if value != getattr(QUESTION, key) else []
    if not outcome.placebos and any(placebo_of(name) for name in methods):
        words.append("--no-controls")
    words += ["--out", str(outcome.folder)] if seeds else []
    settings = outcome.settings.flat()
    left_out = {"methods", "seed"} | ({"local-evaluation"} if question.score == LOCAL else set())
    kept = {key: value for key, value in settings.items() if key not in left_out}
    if kept["server-threads"] == 1:  # what a comparison takes by itself
        del kept["server-threads"]
    return shlex.join(["fedmirage", "compare", *words, *flags_of(kept)])


def flags_of(config: Mapping[str, Any]) -> list[str]:
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
