"""Texts and pictures that reach the networks as embeddings."""

from dataclasses import replace
from typing import Any

from pydantic import Field, field_validator

from fedmirage.common.data.catalogue.base import DatasetParams, OwnParams
from fedmirage.common.data.catalogue.cards import Card
from fedmirage.common.settings.language import REFERENCE, resolve_one, write


class Texts(OwnParams):
    """Texts with labels in one file (.csv, .parquet or .jsonl); only for the `of` of embeddings."""

    name = "texts"

    text: str = Field("text", min_length=1)
    """Column of the texts."""
    label: str = Field("label", min_length=1)
    """Column of the labels: numbers or names."""


class Embeddings(DatasetParams):
    """Texts or pictures through a frozen encoder: one vector per sample, computed once on each
    machine and kept in its cache, readable by its owner only.

    The encoder is a function of yours. It takes a list of texts, or pictures as a uint8 tensor
    (samples, channels, height, width), and returns one vector per sample, which is used as it is. A
    deployed node imports it only if its owner lists it in allow=, and its source must be the
    server's.
    """

    name = "embeddings"

    of: str = Field(min_length=1)
    """The line of the set that is encoded, such as "texts(path='notes.csv')" or "digits"."""
    encoder: str
    """Where the function is: "module:function", or "./file.py:function" on one host."""
    width: int | None = Field(None, ge=1)
    """How many numbers a vector has; needed where the server reads no data (server-data="none"),
    otherwise the encoder tells it."""

    @field_validator("of")
    @classmethod
    def _readable(cls, value: str) -> str:
        inner = read_inner(value)
        if isinstance(inner, Embeddings):
            raise ValueError("embeddings of embeddings are not made; name the set itself")
        if inner.limit is not None:
            raise ValueError("write limit= for the embeddings, not for the set that is encoded")
        return write(inner)

    @field_validator("encoder")
    @classmethod
    def _reference(cls, value: str) -> str:
        if not REFERENCE.fullmatch(value):
            raise ValueError('write "module:function"')
        return value

    @property
    def inner(self) -> DatasetParams:
        """The set that is encoded."""
        return read_inner(self.of)

    @property
    def test_share(self) -> float:
        """The share that is held out of a set without a test split."""
        return float(getattr(self.inner, "test_share", 0.0))

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of one vector, if the parameters say it."""
        return None if self.width is None else (self.width,)

    @property
    def missing_shape(self) -> str:
        """What to write if it is not known."""
        return "width= with how many numbers a vector has"

    @property
    def scaled_by_content(self) -> bool:
        """Whether the inputs are normalised by numbers that only the content gives."""
        return False

    def place(self, **changes: Any) -> "Embeddings":
        """Return the embeddings of a set of the same kind in another place."""
        return self.model_copy(update={"of": write(self.inner.model_copy(update=changes))})

    def about(self) -> Card:
        """Return the facts about the set that is encoded; only the encoder knows the shape."""
        return replace(self.inner.about(), shape=None)


def read_inner(line: str) -> DatasetParams:
    """Read the line of the set that is encoded."""
    from fedmirage.common.data.catalogue.params import DATASETS  # which lists this one, too

    return resolve_one(line, DATASETS, "of")
