"""How a run turned files into inputs: facts that a model file carries, so it can be repeated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fedmirage.common.data.catalogue.encoded import Embeddings, Texts
from fedmirage.common.data.catalogue.params import DatasetParams
from fedmirage.common.data.files.raw import PictureForm
from fedmirage.common.data.files.sources import form_of
from fedmirage.common.own_code import hash_source

Side = Annotated[int, Field(ge=1, le=2**16)]


@dataclass(frozen=True)
class Reading:
    """How inputs were read, without their place. Normalisation is a fact of the model itself."""

    size: Side | None = None  # of pictures: the side to which each was resized; None for none
    channels: Side | None = None  # to which their colours were brought; None keeps the file's
    encoder: str = ""  # "module:function" that made vectors of texts or pictures
    source: str = ""  # the hash of its source
    text: str = ""  # the column of the texts that were encoded

    @property
    def form(self) -> PictureForm:
        """The form to which pictures are brought."""
        return PictureForm(self.size, self.channels)


def describe_reading(chosen: Sequence[DatasetParams]) -> Reading:
    """Say how the sets of a `dataset` line are read.

    Several sets agree in shape, so a size that one of them names is the size of all.
    """
    encoded = next((params for params in chosen if isinstance(params, Embeddings)), None)
    inner = [params.inner if isinstance(params, Embeddings) else params for params in chosen]
    forms = [form_of(params) for params in inner]
    texts = next((params.text for params in inner if isinstance(params, Texts)), "")
    return Reading(
        size=next((form.size for form in forms if form.size), None),
        channels=next((form.channels for form in forms if form.channels), None),
        encoder=encoded.encoder if encoded else "",
        source=hash_source(encoded.encoder) if encoded else "",
        text=texts,
    )
