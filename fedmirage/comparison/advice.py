"""What to run after a comparison, and why; and the command that repeats a run or a comparison."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedmirage.common.settings.config import RATES, defaults
from fedmirage.comparison.outcome import Outcome, Standing
from fedmirage.comparison.plan import QUESTION
from fedmirage.comparison.rows import FEDAVG, LOCAL, placebo_of
from fedmirage.comparison.statistics import AHEAD, UNDECIDED

FEW = 3  # seeds with which intervals begin to say something
NOT_NEEDED = {"methods", "server-threads", "diagnostics", "save-images"}
LONGEST = 10  # rounds over which the last average goes at most
LEFT_OUT = {"out", "resume", "warm-start"}  # where results go, and where a run began


def advise(outcome: Outcome) -> str:
    """Suggest one command: the rest of the runs, more seeds, a method, or averages alone."""
    failed = sum(len(standing.failed) for standing in outcome.standings)
    if failed:
        command = repeat_comparison(outcome, outcome.seeds)
        return f"{command} (it goes on with what failed: {failed} run{'s' * (failed > 1)})"
    if len(outcome.seeds) < 2:
        return f"{_with_more_seeds(outcome)} (one seed has no interval)"
    methods = [one for one in outcome.ranked if one.entry.name not in outcome.placebos]
    for standing in methods:
        if reason := find_reason(outcome, standing):
            return f"{_run(outcome, standing.entry.name)} ({reason})"
    for standing in methods:
        if other := find_doubt(outcome, standing):
            name = outcome.short[standing.entry.name]
            return f"{_with_more_seeds(outcome)} ({name} leads {other}, but that is undecided)"
    averages = (
        f"fedavgm(momentum=0.5), swa(length={max(2, min(LONGEST, outcome.settings.rounds // 3))})"
    )
    sensible = outcome.question.score != LOCAL and outcome.settings.server_reads_data
    if sensible and averages not in outcome.by_name:
        reason = (
            "nothing here is ahead of FedAvg and of its placebo; averages over rounds cost nothing"
        )
        return f"{_run(outcome, averages)} ({reason})"
    baseline = outcome.question.baseline
    return f"{_run(outcome, baseline)} (nothing here is ahead of {outcome.baseline})"


def find_reason(outcome: Outcome, standing: Standing) -> str:
    """Say why a method has earned a run: it is ahead of the baseline, and of its placebo."""
    to_baseline, to_placebo = outcome.differences(standing).values()
    if to_baseline is None or to_baseline.verdict != AHEAD:
        return ""
    if to_placebo is None:
        return f"it is ahead of {outcome.baseline}"
    ahead = to_placebo.verdict == AHEAD
    return f"it is ahead of {outcome.baseline} and of its placebo" if ahead else ""


def find_doubt(outcome: Outcome, standing: Standing) -> str:
    """Name what a method is ahead of, but not beyond doubt; nothing if it is behind anything."""
    named = {
        outcome.baseline: outcome.to_baseline(standing),
        "its placebo": outcome.to_placebo(standing),
    }
    known = {name: one for name, one in named.items() if one is not None}
    if any(one.mean <= 0 for one in known.values()):
        return ""
    return " and ".join(name for name, one in known.items() if one.verdict == UNDECIDED)


def _with_more_seeds(outcome: Outcome) -> str:
    """Write the command that goes on with twice as many seeds, but at least a few."""
    wanted, seeds = max(FEW, 2 * len(outcome.seeds)), list(outcome.seeds)
    unused = (seed for seed in range(wanted + max(seeds)) if seed not in seeds)
    return repeat_comparison(outcome, [*seeds, *(next(unused) for _ in range(wanted - len(seeds)))])


def _run(outcome: Outcome, methods: str) -> str:
    """Write the command of a single run, without what only a comparison needs."""
    settings = outcome.settings.flat()
    kept = {key: value for key, value in settings.items() if key not in NOT_NEEDED}
    return shlex.join(["fedmirage", "run", "--methods", methods, *flags_of(kept)])


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
