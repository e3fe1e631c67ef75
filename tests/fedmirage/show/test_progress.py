"""What a run looks like in a terminal, and how its end is summarised."""

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from fedmirage.common.settings.config import configure
from fedmirage.server.record.results import Results
from fedmirage.show.progress import Watch, show_summary

SUMMARY = {
    "status": "finished",
    "rounds": 3,
    "final_accuracy": 0.5,
    "bytes_up": 1,
    "bytes_down": 1,
}


def test_the_results_path_is_never_cut() -> None:
    folder = (
        Path("/somewhere/[deep]/down") / "a-rather-long-name-of-a-run" / "20250101-120000-cifar"
    )
    console = Console(file=io.StringIO(), width=60)
    show_summary(console, SUMMARY, folder)
    assert f"results: {folder}\n" in console.file.getvalue()  # type: ignore[attr-defined]


def rows_left(output: str) -> list[str]:
    """What a terminal shows after everything was written, overwritten and erased in it."""
    rows, at = [""], 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\n|[^\x1b\r\n]+", output):
        if piece == "\n":
            at += 1
            rows += [""] * (at == len(rows))
        elif piece == "\x1b[1A":
            at -= 1
        elif piece == "\x1b[2K":
            rows[at] = ""
        elif not piece.startswith("\x1b"):
            rows[at] += piece
    return rows


def test_notes_stay_above_the_bar(tmp_path: Path) -> None:
    """A method that gave up must not look like one that worked."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    results = Results(tmp_path)
    line: dict[str, Any] = {"kind": "round", "accuracy": 0.5, "loss": 1.0, "train": {}}
    line |= {"bytes_up": 1, "bytes_down": 1, "seconds": {"round": 1.0}}
    with Watch(console, tmp_path, 3) as watch:
        results.append({"kind": "config", **configure().flat()})
        results.note(1, "dynafed synthesises: 5/10", progress=True)
        results.note(1, "dynafed leaves the model alone [for now]")
        watch.look()
        for number in (1, 2, 3):
            results.append({**line, "round": number})
    rows = rows_left(console.file.getvalue())  # type: ignore[attr-defined]
    note, bar = (
        next(at for at, row in enumerate(rows) if row.startswith(word))
        for word in ("round 1: dynafed leaves the model alone [for now]", "rounds ")
    )
    assert note < bar
    assert "3/3" in rows[bar]
    assert not any("synthesises" in row for row in rows)


def test_the_summary_repeats_what_a_reader_must_know() -> None:
    notes = [f"round {number}: repaired" for number in range(1, 8)]
    console = Console(file=io.StringIO(), width=100)
    evaluation = {"accuracy_all_outputs": 0.0, "macro_f1": 0.25, "worst_class": "bag"}
    show_summary(
        console,
        {
            **SUMMARY,
            "idle": {"dynafed": "no set was accepted"},
            "notes": notes,
            "final_evaluation": {**evaluation, "worst_recall": 0.125},
        },
        Path("run"),
    )
    text = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [[cell.strip() for cell in row.split("│")[1:-1]] for row in text.splitlines()]
    assert ["final accuracy", "50.00 %"] in rows
    assert ["accuracy over all outputs", "0.00 %"] in rows
    assert ["macro-F1", "25.00 %"] in rows
    assert ["worst class", "bag, recall 12.50 %"] in rows
    assert ["dynafed never acted", "no set was accepted"] in rows
    assert [row[1] for row in rows if row[:1] == ["note"]] == [
        *notes[:5],
        "and 2 more in results.jsonl",
    ]
