"""Allowed values in words, straight from the types."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from fedmirage.common.settings.describe import describe
from fedmirage.common.settings.language import Params

Rate = Annotated[float, Field(gt=0)]


class Everything(Params):
    choice: Literal["a", "b", 3] | None = None
    """A choice."""
    count: int = Field(1, ge=1, le=8)
    """A count."""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A share."""
    rate: Rate | None = None
    """A rate."""
    large: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    """A number with a limit that nobody meets."""
    pair: Annotated[tuple[Rate, ...], Field(min_length=1)] = (1.0,)
    """Several."""
    both: float | tuple[float, ...] = 1.0
    """One or several."""
    flag: bool = False
    """A switch."""
    name_of: str
    """A text
    in two lines."""


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("choice", "'a', 'b', 3 or None"),
        ("count", "a whole number from 1 to 8"),
        ("share", "a number of at least 0 and below 1"),
        ("rate", "a number above 0 or None"),
        ("large", "a whole number of at least 0"),
        ("pair", "(a number above 0, ...)"),
        ("both", "a number or (a number, ...)"),
        ("flag", "True or False"),
        ("name_of", "a text"),
    ],
)
def test_allowed_values_in_words(key: str, words: str) -> None:
    (row,) = [row for row in describe(Everything) if row.key == key]
    assert row.allowed == words


def test_defaults_and_meanings() -> None:
    rows = {row.key: row for row in describe(Everything)}
    assert rows["name_of"].default == "required"
    assert rows["pair"].default == "(1.0,)"
    assert rows["name_of"].meaning == "A text in two lines."
