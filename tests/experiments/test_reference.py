"""The committed pages of docs/reference are those that the code makes."""

import pytest

from experiments.reference import FOLDER, pages
from fedmirage.common.methods import METHODS

MADE = pages()


@pytest.mark.parametrize("name", MADE)
def test_a_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == MADE[name], "run `make reference` and commit the page"


def test_no_other_page_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(MADE)


def test_every_method_has_its_section() -> None:
    assert [name for name in METHODS if f"\n## `{name}`\n" not in MADE["methods.md"]] == []
