"""How the end of a run is shown."""

import io
from pathlib import Path

from rich.console import Console

from experiments.show.progress import show_summary

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
