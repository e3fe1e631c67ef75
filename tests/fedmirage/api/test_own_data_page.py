"""docs/own-data.md, executed as it is written."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "own-data.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.usefixtures("here")
def test_every_block_runs_and_says_what_the_page_says(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space: dict[str, Any] = {}
    held = []
    for block in BLOCK.findall(PAGE.read_text()):
        exec(compile(block, PAGE.name, "exec"), space)
        held.append(space["run"].clients["examples"].tolist()[:3])
    assert sum(held[2]) == 142  # rows of a table, without the test set
    assert held[5] == [500, 300, 600]  # one part per client
    assert held[7] == [719, 360, 359]  # the function: half, and the rest evenly
    assert held[8] == [500, 300, 600]  # the same as positions
    assert space["run"].settings["partition"] == 'indices(path="split.json")'
    printed = capsys.readouterr().out
    assert re.search(r"^npz\(mean=0.3, std=0.4, path='given/\w{20}\.npz'\)$", printed, re.MULTILINE)
    assert "100 images but 90 labels" in printed
    assert "11 labels are negative" in printed
    assert "clients=0" in printed
    assert {path.suffix for path in (data / "given").iterdir()} == {".npz", ".json"}
