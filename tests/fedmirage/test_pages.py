"""The command line accepts the commands on the pages, and their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from fedmirage.cli import app
from fedmirage.common.settings.config import RunConfig, configure, key_of
from fedmirage.common.settings.project import project
from fedmirage.settings.layers import read_layers

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\.venv/bin/)?fedmirage ", re.MULTILINE)
OTHERS = {"supernode"}  # takes Flower's own options too
# Their commands need the files that they write; tests execute them.
EXECUTED = {"own-method.md", "tables.md"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The words of every `fedmirage ...` in a code block, with its continued lines."""
    blocks = BLOCK.findall(page.read_text()) if page.name not in EXECUTED else []
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


def anchors(page: Path) -> set[str]:
    """The names that headings get where Markdown is shown."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text())
    links = [link.partition("#") for link in LINK.findall(text) if "://" not in link]
    for path, _, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_the_version_is_the_same_everywhere() -> None:
    version = project()["project"]["version"]
    first = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
