"""Recorded runs: results.jsonl, made small enough to be committed, in docs/results/runs/NAME.

What is kept of a run: all settings and versions; of every round its accuracy, loss, evaluation,
loss terms, metrics of methods, diagnostics, bytes and seconds; the summary. What is left out:

    clients      what each client reported; `client_seconds` keeps the mean of their seconds, and
                 refused clients stay listed
    paths        the folder becomes the run's name, a warm start the name of the recorded run
    digits       numbers are rounded to six significant digits, more than any table shows
"""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedmirage.common.drafts import write_whole
from fedmirage.common.errors import ConfigurationError, DataError, FedmirageError
from fedmirage.records.lines import find_summary, read_record
from fedmirage.server.record.results import FILE

RESULTS = Path(__file__).parents[2] / "docs" / "results"
DIGITS = 6
LARGEST = 200_000  # bytes of a recorded run; 200 rounds with evaluations of two models need 113 kB
PRIVATE = ("resume", "data-dir")  # settings that name places of one machine


def recorded_runs(results: Path = RESULTS) -> dict[Path, dict[str, Any]]:
    """Return the settings of all recorded runs, by their folders; none without docs/results."""
    paths = sorted((results / "runs").glob(f"*/{FILE}"))
    lines = {path.parent: read_record(path.parent) for path in paths}
    return {folder: found[0] for folder, found in lines.items() if found}


def record_run(source: Path, name: str, results: Path = RESULTS) -> Path:
    """Write the small form of a finished run under a name, and return its path."""
    check_name(name)
    if not results.is_dir():
        raise FedmirageError(f"there is no folder {results}; --results names the one of the pages")
    if not (source / FILE).exists():
        raise FedmirageError(f"there is no {FILE} in {source}; give the folder of a run")
    lines = read_record(source)
    if find_summary(source).get("status") != "finished":
        raise FedmirageError(f"{source} is not finished; only finished runs are recorded")
    begun, _, _ = str(lines[0]["warm-start"]).rpartition("@")
    if begun and not (results / "runs" / Path(begun).name / FILE).exists():
        raise FedmirageError(
            f"{source} took rounds over from {Path(begun).name}; record that run first, under this"
            " very name, because tables read its rounds too"
        )
    text = "".join(json.dumps(shrink(line, name)) + "\n" for line in lines)
    if len(text.encode()) > LARGEST:
        raise DataError(
            f"{source} would take {len(text.encode())} bytes, and a recorded run may have {LARGEST}"
        )
    path = results / "runs" / name / FILE
    write_whole(path, text.encode())
    return path


def check_name(name: str) -> None:
    """Refuse names that are no names of folders."""
    if not name or not all(sign.isalnum() or sign in "-_." for sign in name) or name[0] == ".":
        raise ConfigurationError(
            [f"record: {name!r} is no name; write letters, digits, hyphens and dots, like niid2-s0"]
        )


def shrink(line: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Make the small form of one line."""
    kept = dict(line)
    if line["kind"] == "config":
        source, sign, taken = str(line["warm-start"]).rpartition("@")
        kept |= {key: "" for key in PRIVATE if key in kept}
        kept |= {"out": name, "warm-start": f"{Path(source).name}{sign}{taken}" if source else ""}
    elif line["kind"] == "round":
        seconds = [client["seconds"] for client in kept.pop("clients", []) if "seconds" in client]
        kept |= {"client_seconds": statistics.fmean(seconds)} if seconds else {}
    return {key: shorten(value) for key, value in kept.items()}


def shorten(value: Any) -> Any:
    """Round all numbers inside a value."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: shorten(one) for key, one in value.items()}
    return [shorten(one) for one in value] if isinstance(value, list) else value
