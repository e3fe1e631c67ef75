"""The sets that are made from pictures of others, with several domains."""

from pydantic import Field

from common.data.catalogue import cards
from common.data.catalogue.base import DatasetParams


class StyleParams(DatasetParams):
    """The parameters of digits in five styles."""

    seed: int = Field(0, ge=0)
    """Decides which picture gets which style, and everything that is random about a style."""


class DigitsDomains(StyleParams):
    """The embedded digits in five styles (domains): 1,797 + 448 pictures, 16x16.

    The styles are plain, inverted on a texture, blended with colourful patches (as MNIST-M is),
    rendered from fonts, and warped. A picture is dealt to one style and one split before it is
    changed. The partition `domains` gives each of five clients its own style.
    """

    name = "digits-domains"
    card = cards.EMBEDDED_DOMAINS

    size: int | None = Field(16, ge=8, le=1024)
    """Side in pixels: 16 is enough for every small network; FedLGD uses 28."""


class MnistDomains(StyleParams):
    """MNIST in the five styles (domains) of digits-domains: 75,000 + 12,500 pictures, 28x28.

    A fifth of them is rendered; every other one is a picture of MNIST, which is used once.
    """

    name = "mnist-domains"
    card = cards.MNIST_DOMAINS

    size: int | None = Field(None, ge=8, le=1024)
    """Side in pixels to which MNIST is resized before it is changed; None keeps 28."""

    def made_from(self) -> str | None:
        """Return the name of the set whose files are read."""
        return "mnist"
