"""The sets that are made from pictures of others, with several domains."""

from dataclasses import replace

from pydantic import Field, field_validator

from fedmirage.common.data.catalogue import cards
from fedmirage.common.data.catalogue.base import Names, PictureParams
from fedmirage.common.data.catalogue.cards import Card


class StyleParams(PictureParams):
    """The parameters of digits in five styles."""

    seed: int = Field(0, ge=0)
    """Decides which picture gets which style, and everything that is random about a style."""


class DigitsDomains(StyleParams):
    """The embedded digits in five styles (domains): 1,797 + 448 pictures, 16x16.

    The styles are plain, inverted on a texture, blended with colourful patches (as MNIST-M is),
    rendered from fonts, and warped. A picture is assigned to one style and one split before it is
    changed. The partition `domains` gives each of five clients its own style.
    """

    name = "digits-domains"

    size: int | None = Field(16, ge=8, le=1024)
    """Side in pixels: 16 is enough for every small network; FedLGD uses 28."""


class MnistDomains(StyleParams):
    """MNIST in the five styles (domains) of digits-domains: 75,000 + 12,500 pictures, 28x28.

    A fifth of them is rendered; every other one is a picture of MNIST, which is used once.
    """

    name = "mnist-domains"

    size: int | None = Field(None, ge=8, le=1024)
    """Side in pixels to which MNIST is resized before it is changed; None keeps 28."""

    def made_from(self) -> str | None:
        """Return the name of the set whose files are read."""
        return "mnist"


class Cifar10C(PictureParams):
    """CIFAR-10-C: CIFAR-10 with 19 kinds of corruption, each a domain, at five severities; 50,000 +
    10,000 pictures, 32x32.

    It is made from CIFAR-10 with the published strengths, or read from the published files. These
    show the 10,000 test pictures of CIFAR-10; a tenth of every class becomes the test set.
    FedLGD's 57 clients are published=True, overlap=True with the partition domains(shards=3,
    alpha=2, minimum=100). The columns "domain" and "severity" tell the samples apart.
    """

    name = "cifar10-c"

    corruptions: Names = ()
    """Which ones, by the names of the published files, such as ("fog", "snow"); () takes all."""
    severity: int | None = Field(None, ge=1, le=5)
    """From 1 (weak) to 5; None takes all five: one for each picture that is made, and all versions
    of a picture in the published files."""
    overlap: bool = False
    """Every corruption shows all pictures, as published; False gives each picture to one of them. A
    picture of the training split is never in the test split."""
    published: bool = False
    """Reads the published files, instead of making the pictures from CIFAR-10."""
    seed: int = Field(0, ge=0)
    """Decides which picture is corrupted in which way, and everything random about that."""

    @field_validator("corruptions")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in value if name not in cards.CORRUPTIONS]
        if unknown or len(set(value)) < len(value):
            what = f"{unknown[0]!r} is none of them" if unknown else "one is named twice"
            raise ValueError(f"{what}; choose from {', '.join(cards.CORRUPTIONS)}")
        return value

    def about(self) -> Card:
        """Return the facts about the chosen corruptions."""
        return replace(self.card, domains=self.corruptions or self.card.domains)

    def made_from(self) -> str | None:
        """Return the name of the set whose files are read."""
        return None if self.published else "cifar10"
