"""What is known about the data sets before any of their files is opened: cards.toml, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fedmirage.common.data.set import Task


@dataclass(frozen=True)
class Card:
    """The facts about one set. What is empty here is read from the files."""

    # of one input as published, (channels, height, width) of a picture
    shape: tuple[int, ...] | None = None
    samples: tuple[int, int] = (0, 0)  # of the training set and of the test set
    classes: tuple[str, ...] = ()  # names of the classes
    count: int | None = None  # number of classes, where the names come from the files
    task: Task | Literal["any"] = "single-label"  # "any": it follows from the labels
    mean: tuple[float, ...] = (0.5,)  # of pixels in [0, 1], one number or one per channel
    std: tuple[float, ...] = (0.5,)
    hub: str = ""  # owner/name on the Hugging Face hub; empty: no copy is known
    subset: str = ""  # its configuration on the hub
    # the column of the pictures in parquet files, in order of preference; empty: there are none
    image: tuple[str, ...] = ("image", "img")
    label: tuple[str, ...] = ("label", "labels")
    # further columns: their name in partitions, and their name in the files
    columns: Mapping[str, str] = field(default_factory=dict)
    domains: tuple[str, ...] = ()  # names of the numbers in the column "domain", where it is made
    test: tuple[str, ...] = ("test",)  # what the hub and the archives call the test split
    folders: tuple[str, ...] = ()  # other names of its folder inside the data folder
    files: str = ""  # the genuine files, for the sentence about a missing set
    origin: str = ""  # where to get them

    @property
    def class_count(self) -> int | None:
        """The number of classes, where it is fixed."""
        return self.count or len(self.classes) or None


def _read(facts: dict[str, Any]) -> Card:
    tuples = {name: tuple(fact) for name, fact in facts.items() if isinstance(fact, list)}
    listed = {name: NAMES[facts[name]] for name in ("classes", "domains") if name in facts}
    return Card(**(facts | tuples | listed))


_FACTS = tomllib.loads(Path(__file__).with_name("cards.toml").read_text())
NAMES: dict[str, tuple[str, ...]] = {
    name: tuple(names) for name, names in _FACTS.pop("names").items()
}
CARDS = {name: _read(facts) for name, facts in _FACTS.items()}

DIGITS, CORRUPTIONS, DIGIT_STYLES = NAMES["digits"], NAMES["corruptions"], NAMES["styles"]
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
MERGED = DIGITS + LETTERS + tuple("abdefghnqrt")  # letters whose two cases look alike are one class
EMNIST_CLASSES = {
    "digits": DIGITS,
    "mnist": DIGITS,
    "letters": LETTERS,
    "balanced": MERGED,
    "bymerge": MERGED,
    "byclass": DIGITS + LETTERS + tuple(letter.lower() for letter in LETTERS),
}
EMNIST_HUB = {"letters": "tanganke/emnist_letters", "mnist": "tanganke/emnist_mnist"}
