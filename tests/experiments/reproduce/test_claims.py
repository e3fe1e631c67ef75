"""docs/claims.md uses four statuses, and names pages, tables and methods lines that exist."""

import re
from pathlib import Path

import pytest

from experiments.reproduce.tables import list_tables, read_papers
from fedmirage.common.settings.config import configure

DOCS = Path(__file__).parents[3] / "docs"
STATUSES = {"reproduced", "not reproduced", "not told from its placebo", "not run"}
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (DOCS / "claims.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| Claim")
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0][:40])
def test_a_claim_has_a_status_and_what_supports_it(line: list[str]) -> None:
    _claim, status, seen, where = line
    assert status in STATUSES
    if status != "not run":
        assert seen != "-"
        assert re.search(r"\(results/[a-z-]+\.md\)", where), "a status comes from a results page"
    for table in re.findall(r"`([a-z-]+/table\d+)`", where):
        assert table in list_tables()
    for methods in re.findall(r'--methods "([^"]+)"', where):
        configure({"methods": methods, "optimizer": "sgd"})


@pytest.mark.parametrize("page", ["claims.md", "choose.md"])
def test_links_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text())
    assert targets
    assert [target for target in targets if not (DOCS / target).exists()] == []


def test_every_paper_has_its_claims_and_choosing_takes_ten_lines() -> None:
    text = (DOCS / "claims.md").read_text().lower()
    assert all(f"\n## {paper}\n" in text for paper in read_papers())
    assert re.findall(r"^(\d+)\. ", (DOCS / "choose.md").read_text(), re.MULTILINE) == [
        str(number) for number in range(1, 11)
    ]
