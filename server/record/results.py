"""Writes results.jsonl: one JSON object per line, flushed; a killed run keeps its history."""

import json
import math
import os
import platform
import statistics
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import DataError
from fedmirage.common.own_code import hash_sources
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.project import project
from fedmirage.server.record.format import find_problem
from fedmirage.server.record.shown import describe_outcome

FILE = "results.jsonl"
PACKAGES = ("flwr", "torch", "torchvision", "numpy", "ray")
FACTS = {"kind", "cautions", "acts_from", "resolved", "versions"}  # in line 1 beside all settings


class Results:
    """The file results.jsonl of one run."""

    def __init__(self, folder: Path, log: Callable[[str], None] | None = None) -> None:
        self.path = folder / FILE
        self.log = log or (lambda sentence: None)  # receives the sentences that a person should see

    def begin(self, config: RunConfig, resolved: dict[str, Any]) -> None:
        """Write line 1: the resolved configuration, with versions and facts about the data."""
        self.path.unlink(missing_ok=True)
        line = {"kind": "config", **config.flat(), **_expectations(config)}
        self.append({**line, "resolved": resolved, "versions": find_versions()})

    def append(self, line: dict[str, Any]) -> None:
        """Write a line and make sure that it is on disk."""
        with self.path.open("a") as file:
            file.write(json.dumps(_plain(line), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def note(self, round_number: int, text: str, progress: bool = False) -> None:
        """Write what a server half reports during a round.

        It is a decision, which the summary repeats, or only its `progress`.
        """
        line = {"kind": "note", "round": round_number, "text": text}
        self.append({**line, "progress": True} if progress else line)
        self.log(f"round {round_number}: {text}")

    def lines(self, kind: str = "round") -> list[dict[str, Any]]:
        """Return all lines of a kind, without a last line that a kill left incomplete."""
        return [line for line in read_results(self.path) if line["kind"] == kind]

    def forget_after(self, round_number: int) -> None:
        """Drop what was written after a checkpoint, and any summary: the run goes on from there."""
        kept = [
            line
            for line in read_results(self.path)
            if line["kind"] == "config" or line.get("round", math.inf) <= round_number
        ]
        self._rewrite(kept)

    def resume(self, config: RunConfig, round_number: int) -> None:
        """Continue from a checkpoint; line 1 then has the rounds and versions of now."""
        self.forget_after(round_number)
        begun, *others = read_results(self.path)
        # The resumed configuration no longer has the warm start, which decides when methods act.
        whole = config.model_copy(update={"warm_start": begun["warm-start"]})
        now, then = find_versions(), begun.get("versions", {})
        renewed = {"rounds": config.rounds, "versions": now, **_expectations(whole)}
        changed = [
            f"{name} {now[name]} (it was {old})"
            for name, old in then.items()
            if now.get(name, old) != old
        ]
        sources, resolved = hash_sources(config.own_code), begun.get("resolved", {})
        if sources != resolved.get("sources", {}):
            changed += [f"other source of {name}" for name in sources]
            renewed["resolved"] = {**resolved, "sources": sources}
        notes = []
        if changed:
            text = f"the run goes on with {', '.join(changed)}, which may change its numbers"
            notes = [{"kind": "note", "round": round_number, "text": text}]
            self.log(f"round {round_number}: {text}")
        self._rewrite([{**begun, **renewed}, *others, *notes])

    def drop_torn(self) -> None:
        """Cut off a last line that a full disk left incomplete, so that another can follow."""
        if self.path.exists():
            os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)

    def _rewrite(self, lines: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write_whole(self.path, text.encode())

    def interrupt(self, round_number: int) -> None:
        """Close the file of a run whose processes are gone.

        It keeps the lines up to the round of the checkpoint, and gets exactly one summary. A run
        that had already finished is left as it is.
        """
        if read_results(self.path)[-1].get("status") != "finished":
            self.forget_after(round_number)
            self.finish("interrupted")

    def finish(
        self,
        status: str,
        detail: dict[str, Any] | None = None,
        idle: dict[str, str] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Write the last line: how the run ended, and its final, best and last-five accuracy.

        `detail` is the part of the last evaluation that the lines of rounds leave out. `idle` are
        methods whose server half says that it changed nothing, each with its reason.
        """
        found = summarise(read_results(self.path))
        summary = {"kind": "summary", "status": status, **found, **more}
        summary["final_evaluation"] = {**summary["final_evaluation"], **(detail or {})}
        if reasons := {**summary.get("idle", {}), **(idle or {})}:
            summary["idle"] = reasons
        self.append(summary)
        self.log(describe_outcome(summary))
        return summary


def find_versions() -> dict[str, str]:
    """Return the versions of everything that decides the numbers of a run."""
    own = {"fedmirage": project()["project"]["version"], "python": platform.python_version()}
    return own | {package: version(package) for package in PACKAGES}


def summarise(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarise the lines of a run: its rounds, and what a reader of their numbers must know."""
    config = next((line for line in lines if line["kind"] == "config"), {})
    rounds = [line for line in lines if line["kind"] == "round"]
    scored = [line for line in lines if line["kind"] == "held_out"]
    return {
        **_scores(rounds),
        **_target(config.get("target"), rounds),
        **_notes(config, lines),
        **_idle(config.get("acts_from", {}), rounds),
        **({"dp": rounds[-1]["dp"]} if rounds and "dp" in rounds[-1] else {}),
        **({"final_held_out": scored[-1]} if scored else {}),
    }


def _expectations(config: RunConfig) -> dict[str, Any]:
    """Return what can be said before the first round: cautions, and when each method first acts."""
    first = {method.name: method.acts_from(config) for method in config.method_list}
    return {"cautions": config.cautions, "acts_from": first}


def _notes(config: dict[str, Any], lines: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Collect cautions, and what methods decided."""
    decided = [
        f"round {line['round']}: {line['text']}"
        for line in lines
        if line["kind"] == "note" and not line.get("progress")
    ]
    decided += [
        f"round {line['round']}: {line['memory']['fell_back']} clients could not read what they"
        " remembered of their last round, and went on from an older one"
        for line in lines
        if line.get("memory")
    ]
    notes = [*config.get("cautions", []), *decided]
    return {"notes": notes} if notes else {}


def _idle(acts_from: dict[str, int], rounds: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Name the methods for which there were too few rounds; without any, nothing is misread."""
    done = rounds[-1]["round"] if rounds else math.inf
    late = {name: f"it acts from round {n} on" for name, n in acts_from.items() if n > done}
    return {"idle": late} if late else {}


def _target(target: float | None, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Find the first round that reached the target accuracy; None if no round did."""
    if not target:
        return {}
    reached = (
        line["round"]
        for line in rounds
        if line.get("accuracy") is not None and line["accuracy"] >= target
    )
    return {"target_accuracy": target, "rounds_to_target": next(reached, None)}


def _scores(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Say how many rounds there were, with their accuracies and the bytes sent."""
    scores = [line["accuracy"] for line in rounds if line.get("accuracy") is not None]
    return {
        "rounds": rounds[-1]["round"] if rounds else 0,
        "final_accuracy": scores[-1] if scores else None,
        "best_accuracy": max(scores) if scores else None,
        "last5_accuracy": statistics.fmean(scores[-5:]) if scores else None,
        "final_evaluation": next(
            (line["evaluation"] for line in reversed(rounds) if line.get("evaluation")), {}
        ),
        "bytes_up": sum(line["bytes_up"] for line in rounds),
        "bytes_down": sum(line["bytes_down"] for line in rounds),
    }


def read_results(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a results file, without a last one that a kill left incomplete."""
    lines: list[dict[str, Any]] = []
    try:
        texts = path.read_bytes().decode().split("\n") if path.exists() else []
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is damaged: it is not UTF-8 at byte {error.start}; restore it from a copy"
        ) from None
    for number, text in enumerate(texts, start=1):
        try:
            line = from_json(text)
        except ValueError as error:
            if number >= len(texts) - 1:  # the text after the last line is empty
                break
            problem = f"is not JSON ({error})"
        else:
            problem = find_problem(line)
        if problem:
            raise DataError(f"{path} is damaged: line {number} {problem}; restore it from a copy")
        lines.append(line)
    return lines


def _plain(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
