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

from common.settings.config import RunConfig
from common.settings.project import project
from server.record.shown import describe_outcome

FILE = "results.jsonl"
PACKAGES = ("flwr", "torch", "torchvision", "numpy", "ray")


class Results:
    """The file results.jsonl of one run."""

    def __init__(self, folder: Path, log: Callable[[str], None] | None = None) -> None:
        self.path = folder / FILE
        self.log = log or (lambda sentence: None)  # receives the sentences that a person should see

    def begin(self, config: RunConfig, resolved: dict[str, Any]) -> None:
        """Write line 1: the resolved configuration, with versions and facts about the data."""
        self.path.unlink(missing_ok=True)
        versions = {
            "fedmirage": project()["project"]["version"],
            "python": platform.python_version(),
        }
        versions |= {package: version(package) for package in PACKAGES}
        line = {"kind": "config", **config.flat(), "cautions": config.cautions}
        self.append({**line, "resolved": resolved, "versions": versions})

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
        return [line for line in read(self.path) if line.get("kind") == kind]

    def forget_after(self, round_number: int) -> None:
        """Drop what was written after a checkpoint, and any summary: the run goes on from there."""
        kept = [
            line
            for line in read(self.path)
            if line["kind"] == "config" or line.get("round", math.inf) <= round_number
        ]
        draft = self.path.with_suffix(".tmp")
        draft.write_text("".join(json.dumps(line) + "\n" for line in kept))
        os.replace(draft, self.path)

    def interrupt(self, round_number: int) -> None:
        """Close the file of a run whose processes are gone.

        It keeps the lines up to the round of the checkpoint, and gets exactly one summary. A run
        that had already finished is left as it is.
        """
        if read(self.path)[-1].get("status") != "finished":
            self.forget_after(round_number)
            self.finish("interrupted")

    def finish(
        self, status: str, detail: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """Write the last line: how the run ended, and its final, best and last-five accuracy.

        `detail` is the part of the last evaluation that the lines of rounds leave out.
        """
        rounds = self.lines()
        summary = {
            "kind": "summary",
            "status": status,
            **summarise(rounds),
            **self._target(rounds),
            **self._notes(),
            **({"dp": rounds[-1]["dp"]} if rounds and "dp" in rounds[-1] else {}),
            **more,
        }
        summary["final_evaluation"] = {**summary["final_evaluation"], **(detail or {})}
        self.append(summary)
        self.log(describe_outcome(summary))
        return summary

    def _notes(self) -> dict[str, list[str]]:
        """Collect what a reader of the numbers must know: cautions and decisions of methods."""
        cautions = [text for line in self.lines("config") for text in line.get("cautions", [])]
        decided = [
            f"round {line['round']}: {line['text']}"
            for line in self.lines("note")
            if not line.get("progress")
        ]
        return {"notes": cautions + decided} if cautions or decided else {}

    def _target(self, rounds: list[dict[str, Any]]) -> dict[str, Any]:
        """Find the first round that reached the target accuracy; None if no round did."""
        target = next((line.get("target") for line in self.lines("config")), None)
        if not target:
            return {}
        reached = (
            line["round"]
            for line in rounds
            if line.get("accuracy") is not None and line["accuracy"] >= target
        )
        return {"target_accuracy": target, "rounds_to_target": next(reached, None)}


def summarise(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Summarise rounds: how many there were, their accuracies, and the bytes sent."""
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


def read(path: Path) -> list[dict[str, Any]]:
    """Read the complete lines of a results file."""
    lines: list[dict[str, Any]] = []
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def _plain(value: Any) -> Any:
    """Replace numbers that are not finite by None, because JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
