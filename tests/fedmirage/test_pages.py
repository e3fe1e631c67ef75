"""The commands on the pages are ones that the command line accepts."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from fedmirage.cli import app
from fedmirage.common.settings.config import RunConfig, configure, key_of
from fedmirage.settings.layers import read_layers

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\.venv/bin/)?fedmirage ", re.MULTILINE)
OTHERS = {"supernode"}  # takes Flower's own options too


def commands(page: Path) -> list[list[str]]:
    """The words of every `fedmirage ...` in a code block, with its continued lines."""
    blocks = BLOCK.findall(page.read_text())
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = [shlex.split(line, comments=True)[1:] for line in lines if COMMAND.match(line)]
    return [words for words in found if words[0] not in OTHERS]


@pytest.mark.parametrize(
    "words", [words for page in PAGES for words in commands(page)], ids=" ".join
)
def test_a_command_on_a_page_is_accepted(words: list[str]) -> None:
    """Its options exist, and a run or a comparison has settings that are not refused."""
    name, *rest = words
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    given = command.make_context(name, rest).params
    if name == "run" or (name == "compare" and not given["runs"]):
        lines = [given["methods"]] if name == "run" else given["methods"] or ["fedavg"]
        fields = set(RunConfig.model_fields) - {"methods"}
        settings = {key_of(key): value for key, value in given.items() if key in fields}
        flags = {key: value for key, value in settings.items() if value is not None}
        for line in lines:
            layers = read_layers(given["preset"], given["config"])
            configure(*layers, {**flags, **({"methods": line} if line else {})})


def test_the_pages_have_commands() -> None:
    assert len([words for page in PAGES for words in commands(page)]) > 15
