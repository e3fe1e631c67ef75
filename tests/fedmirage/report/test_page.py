"""The page: whole, self-contained, in order, and safe whatever the records say."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from fedmirage.report.data import gather
from fedmirage.report.page import inside_script, render
from tests.support.comparison import plan_records, read_lines, write_lines, write_records

NASTY = "</script><img src=x onerror=\"alert('1')\">&<b>"
VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """Collects the elements of a page, and refuses one that is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.opened: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.opened[-1] if self.opened else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(plan_records(tmp_path))
    return tmp_path


def test_the_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    reader = Reader(render(gather([folder])))
    for _, attributes in reader.found:
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), value
        assert not [name for name in attributes if name.startswith("on")]
    policy = next(one["content"] for one in reader.all("meta") if "http-equiv" in one)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert policy.endswith("connect-src 'none'")


def test_only_a_live_page_may_ask_its_own_server(folder: Path) -> None:
    page = render(gather([folder]), live=True)
    assert "connect-src 'self'" in page
    assert '<html lang="en" data-live="true">' in page


def test_headings_are_in_order_and_ids_are_unique(folder: Path) -> None:
    reader = Reader(render(gather([folder])))
    levels = [int(tag[1]) for tag, _ in reader.found if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in reader.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [one["href"] for one in reader.all("a")]
    assert {str(link).removeprefix("#") for link in links} <= set(ids)


def test_tables_have_captions_and_scopes_and_plots_have_tables(folder: Path) -> None:
    page = render(gather([folder]))
    reader = Reader(page)
    assert len(reader.all("caption")) == len(reader.all("table")) > 10
    assert all(one.get("scope") in ("row", "col") for one in reader.all("th"))
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    places = [one for one in reader.all("div") if "data-plot" in one]
    assert len(figures) == len(places) == len(json.loads(data_of(page))["plots"])
    assert all(one["data-label"] for one in places)
    assert all("<table>" in figure for figure in figures)


def test_whatever_records_say_is_text(tmp_path: Path) -> None:
    """Reasons, notes, classes and figures come from elsewhere and may hold anything."""
    plan = plan_records(tmp_path, seeds="0")
    jobs = plan.runs({})
    write_records(plan, {jobs[1].folder: NASTY})
    lines = read_lines(jobs[0].folder)
    lines[0]["resolved"]["class_names"][3] = NASTY
    for line in lines[1:-1]:
        line["train"][NASTY] = 1.0
    lines[-1] |= {"notes": [NASTY], "idle": {NASTY: NASTY}, "reason": NASTY, "status": "failed"}
    write_lines(jobs[0].folder, lines)
    page = render(gather([tmp_path]))
    reader = Reader(page)
    assert reader.all("img") == []
    assert NASTY not in page
    assert len(reader.all("script")) == 3
    assert NASTY in "".join(reader.texts["li"])
    plots = json.loads(data_of(page))["plots"]
    assert NASTY in plots["group-1-classes"]["options"][0]["x"]
    assert NASTY in [option["label"] for option in plots["group-1-terms"]["options"]]


def test_numbers_inside_a_script_cannot_end_it() -> None:
    written = inside_script({"a": "</script><!--", "b": [1.5, None]})
    assert "<" not in written
    assert json.loads(written) == {"a": "</script><!--", "b": [1.5, None]}


def test_one_run_and_several_groups_have_pages_too(folder: Path) -> None:
    single = render(gather([folder / "fedavg-seed0"]))
    assert "There is one methods line here, so nothing is compared." in single
    assert Reader(single).texts["h1"] == ["fedavg"]
    both = Reader(render(gather([folder, folder / "fedavg-seed0"])))
    articles = [one["id"] for one in both.all("article")]
    assert articles == ["group-1", "group-2", "group-1-behind", "group-2-behind"]
    assert both.texts["h1"] == ["Runs and comparisons"]


def test_sixty_rows_have_tones_and_dashes(tmp_path: Path) -> None:
    write_records(plan_records(tmp_path / "plan", seeds="0"))
    lines = read_lines(tmp_path / "plan" / "fedavg-seed0")
    for number in range(60):
        lines[0]["methods"] = f"fedprox(mu={number / 100})"
        write_lines(tmp_path / "runs" / str(number), lines)
    page = render(gather([tmp_path / "runs"]))
    series = json.loads(data_of(page))["series"]["group-1"]
    assert len(series) == 60
    assert {one["tone"] for one in series} == set(range(7))
    assert len({(one["tone"], one["dash"]) for one in series}) == 21


def data_of(page: str) -> str:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    return found[1]
