"""Runs on paper: lines of results.jsonl without the work, for whatever follows or reads them."""

from pathlib import Path
from typing import Any

from fedmirage.server.record.results import Results

CLIENTS: list[dict[str, Any]] = [
    {"partition": 0, "examples": 10, "train": {"task": 1.5}, "seconds": 0.1},
    {"partition": 1, "examples": 30, "train": {"task": 0.5}, "seconds": 0.2},
]


def begin(folder: Path, token: str = "first", **settings: Any) -> Results:
    """Write the first line of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder)
    config = {"methods": "fedavg", "rounds": 3, "seed": 0, "warm-start": "", **settings}
    results.append({"kind": "config", **config, "resolved": {"token": token}})
    return results


def add_rounds(results: Results, *numbers: int, accuracy: float = 0.0) -> None:
    """Write the lines of rounds; their accuracy grows by a tenth per round."""
    for number in numbers:
        results.append(
            {
                "kind": "round",
                "round": number,
                "accuracy": accuracy + number / 10,
                "loss": None,
                "evaluation": {"recall": [0.5, None], "worst_class": "b"},
                "train": {"task": 0.75},
                "clients": CLIENTS,
                "refused": [],
                "methods": {"fedexp.step": 2.0},
                "bytes_up": 100,
                "bytes_down": 200,
                "seconds": {"round": 1.0},
            }
        )
