"""A method with a changed line, in whichever process imports it."""

import os
from pathlib import Path

from tests.support.commands import TINY
from tests.support.runs import lines

METHOD = [*TINY, "--methods", "fedprox(mu=0.1)", "--clients", "5", "--participation", "1"]
ROOT = Path(__file__).parents[2]
PLACE = """
import fedmirage.{side}.methods as methods

methods.__path__.insert(0, {folder!r})
"""


def alter(folder: Path, side: str, name: str, line: str, instead: str) -> dict[str, str]:
    """Return the environment in which a new Python has another line in one half of a method."""
    code = (ROOT / side / "methods" / f"{name}.py").read_text()
    assert code.count(line) == 1
    altered = folder / "altered"
    altered.mkdir()
    (altered / f"{name}.py").write_text(code.replace(line, instead))
    (folder / "sitecustomize.py").write_text(PLACE.format(side=side, folder=str(altered)))
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def assert_told(said: str, folder: Path) -> None:
    """The traceback is shown and kept, and all clients share one reason, which names the file."""
    kept = (folder / "traceback.txt").read_text()
    assert "return {" in kept
    # Some versions of Python add "Did you mean: 'mu'?".
    last = kept.splitlines()[-1]
    assert last.startswith("AttributeError: 'FedProx' object has no attribute 'muu'")
    assert said.count("Traceback (most recent call last)") == 1
    reason = (
        "clients 0 to 4: its code raised AttributeError: 'FedProx' object has no attribute 'muu'"
        f" (the first traceback is in {folder / 'traceback.txt'})"
    )
    assert said.count(reason) == 1
    (summary,) = lines(folder, "summary")
    assert summary["reason"].endswith(reason)
