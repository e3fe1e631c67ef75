"""The example notebook runs in a real kernel and shows what its committed outputs show."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLE = Path(__file__).parent.parent.parent / "docs" / "example.ipynb"


def kinds(cell: Any) -> set[str]:
    """What a cell shows, by type; lines that Rich prints are not counted."""
    shown = [output for output in cell.outputs if "data" in output]
    return {kind for output in shown for kind in output["data"]}


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook after it ran with fewer rounds, seeds and samples."""
    notebook = nbformat.read(EXAMPLE, as_version=4)
    (parameters,) = (
        cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])
    )
    parameters.source = "rounds, seeds = 2, [0, 1]"
    comparing = next(cell for cell in notebook.cells if "fedmirage.compare(" in cell.source)
    comparing.source = comparing.source.replace("out=", "dataset='digits(limit=300)', out=")
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    return NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()


def codes(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_shows_frames_pictures_and_sentences(executed: Any) -> None:
    committed = nbformat.read(EXAMPLE, as_version=4)
    pairs = list(zip(codes(executed), codes(committed), strict=True))
    assert len(pairs) > 5
    for ran, kept in pairs:
        assert kinds(ran) == kinds(kept), ran.source
    answer = next(cell for cell in codes(executed) if cell.source == "found")
    assert "Over 2 seeds, " in answer.outputs[0]["data"]["text/html"]


def test_the_bar_is_one_output_that_ends_full(executed: Any) -> None:
    texts = [
        output["data"]["text/html"]
        for cell in codes(executed)
        for output in cell.outputs
        if "<progress" in output.get("data", {}).get("text/html", "")
    ]
    (bar,) = texts
    assert re.search(r'<progress value="(\d+)" max="\1"', bar)
    assert re.search(r" (\d+)/\1 runs", bar)
