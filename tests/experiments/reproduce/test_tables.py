"""Every table can be read, every cell that claims so can be run, every number is the paper's."""

import os
import re
from pathlib import Path

import pytest

from experiments.reproduce import tables
from experiments.reproduce.jobs import choose_cells, list_cells, with_arguments
from experiments.reproduce.tables import Table, list_tables, read_papers, read_table
from fedmirage.common.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
TABLES = list(list_tables())
NUMBER = re.compile(r"\d+(?:\.\d+)?|Nan|N/A")


def papers() -> Path:
    """Find the papers' texts beside the checkout; they are not part of the repository."""
    told = os.environ.get("FEDMIRAGE_PAPERS")
    places = (
        [Path(told)] if told else [ROOT.parent / "shared/papers", ROOT.parents[1] / "shared/papers"]
    )
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        pytest.skip(f"the papers' texts are not in {places[0]}; FEDMIRAGE_PAPERS names the folder")
    return found


def numbers_in(text: str) -> list[str]:
    return NUMBER.findall(re.sub(r"<[^>]*>", "", text))


def contains(line: list[str], numbers: list[str]) -> bool:
    """Whether the numbers stand one after the other in a line of the paper."""
    size = len(numbers)
    return any(line[at : at + size] == numbers for at in range(len(line) - size + 1))


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_a_line_of_the_paper(name: str) -> None:
    table = read_table(name)
    text = (papers() / read_papers()[table.name.partition("/")[0]]["text"]).read_text(
        encoding="utf-8"
    )
    lines = [numbers_in(line) for line in text.splitlines()]
    for row in table.rows:
        printed = [cell for cell in row.paper if cell != "-"]
        wanted = [number for cell in printed for number in numbers_in(cell)]
        assert wanted, row.name
        assert any(contains(line, wanted) for line in lines), f"{name}, {row.name}: {wanted}"


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_can_be_configured_or_says_why_not(name: str) -> None:
    for cell in list_cells(read_table(name)):
        if cell.missing:
            assert not cell.missing.endswith("."), "it continues a sentence"
            continue
        assert cell.metric, cell
        assert (cell.target is not None) >= (cell.when == "reached"), cell
        full, small = (cell.configure(scale, {}) for scale in ("paper", "small"))  # type: ignore[arg-type]
        assert small.rounds < full.rounds, cell
        assert [one.name for one in small.method_list] == [one.name for one in full.method_list]


def test_all_tables_of_the_papers_are_there() -> None:
    """A table without results is named with what it holds instead."""
    last = {"fedcog": 11, "vhl": 10, "dynafed": 5, "fedlgd": 14, "fedmd-cg": 17}
    for paper, facts in read_papers().items():
        numbers = {
            int(name.rpartition("table")[2]) for name in TABLES if name.startswith(paper + "/")
        }
        others = {int(number) for number in facts["other-tables"]}
        assert numbers | others == set(range(1, last[paper] + 1)), paper
        assert not numbers & others


def test_small_scales_let_every_method_act() -> None:
    """A FedCOG that starts after the last round would be FedAvg under another name."""
    for cell in list_cells(read_table("fedcog/table1")) + list_cells(read_table("dynafed/table5")):
        if not cell.missing:
            config = cell.configure("small", {})
            assert all(method.acts_from(config) <= config.rounds for method in config.method_list)


def test_settings_come_from_the_table_then_the_column_then_the_row(table: Table) -> None:
    cell = choose_cells(table, ["second"], ["b"])[0]
    config = cell.configure("paper", {"batch_size": 7})
    assert (config.lr, config.clients, config.rounds) == (0.3, 6, 9)
    assert config.batch_size == 7
    assert cell.line == config.methods == "fedprox(mu=0.5), fedcog(start=4)"
    small = cell.configure("small", {})
    assert (small.rounds, small.methods) == (3, "fedprox(mu=0.5), fedcog(start=2)")


def test_wrong_names_are_refused_with_the_nearest_ones(table: Table) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_cells(table, ["secnd"], ["b", "c"])
    assert len(caught.value.problems) == 2
    assert "no row 'secnd'; did you mean 'second'?" in caught.value.problems[0]
    with pytest.raises(ConfigurationError, match="did you mean 'fedcog/table1'"):
        read_table("fedcog/tabel1")


def test_a_damaged_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fedcog").mkdir()
    content = 'title = "t"\ncolumns = [{ name = "a" }]\nrows = [{ name = "r", paper = [] }]\n'
    (tmp_path / "fedcog/table1.toml").write_text(content)
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    with pytest.raises(
        ConfigurationError, match=r"table1.toml: as a whole: .*one number per column"
    ):
        read_table("fedcog/table1")


def test_arguments_go_to_the_methods_that_they_name() -> None:
    line = "fedprox(mu=1.0), vhl"
    assert with_arguments(line, [{"vhl": {"batch": 3}, "moon": {"mu": 1.0}}]) == (
        "fedprox(mu=1.0), vhl(batch=3)"
    )


@pytest.fixture
def table() -> Table:
    """A table in which everything overrides something."""
    content = {
        "name": "fedcog/trial",
        "title": "a trial",
        "metric": "accuracy",
        "settings": {"lr": 0.1, "clients": 4, "rounds": 9},
        "arguments": {"fedcog": {"start": 5}},
        "small": {"settings": {"rounds": 3}, "arguments": {"fedcog": {"start": 2}}},
        "columns": [
            {"name": "a"},
            {
                "name": "b",
                "adds": "fedcog",
                "settings": {"lr": 0.2, "clients": 6},
                "arguments": {"fedcog": {"start": 4}},
            },
        ],
        "rows": [
            {"name": "first", "methods": "fedavg", "paper": ["1.0", "-"]},
            {
                "name": "second",
                "methods": "fedprox(mu=0.5)",
                "settings": {"lr": 0.3},
                "paper": ["2.0 ± 0.5", "3.0"],
            },
        ],
    }
    return Table.model_validate(content)


def test_a_cell_without_a_number_is_not_run(table: Table) -> None:
    missing = {(cell.row.name, cell.column.name): cell.missing for cell in list_cells(table)}
    assert missing["first", "b"] == "the paper has no number there"
    assert not missing["second", "b"]
