"""Sketch: clients share a generator of features and the classifier, and keep their features.

One round
    server -> client   generator and classifier
    client             takes over only the classifier, trains its network, then in a second phase
                       trains its own generator to give features of each label
    client -> server   generator and classifier, and how many samples it has of each class
    server             averages, looks at every single pair, keeps the distribution of labels
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fedmirage.common.method import CLASSIFIER, Method, Parts, Section, Shape

if TYPE_CHECKING:
    from torch import nn

GENERATOR = "generator"
COUNTS = "label-counts"


class Sketch(Method):
    """A method that no paper has."""

    name: ClassVar[str] = "sketch"
    title: ClassVar[str] = "A sketch"
    authors: ClassVar[str] = "nobody"
    link: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = ("term.generator.imitation",)

    parts: ClassVar[Parts] = Parts(
        sends=(CLASSIFIER, GENERATOR), loads=(CLASSIFIER,), adds=(GENERATOR,)
    )
    up: ClassVar[tuple[Section, ...]] = (
        Section(COUNTS, "uniform", holds=lambda classes, shape: [(classes,)], wide=True),
    )

    each: bool = False
    """Look at every single pair; not possible where the server sees sums only."""

    @property
    def needs_each_client(self) -> str:
        """Says that the pairs must be visible, if they are looked at."""
        return "generator" if self.each else ""

    def build_parts(self, shape: Shape, classes: int, feature_dim: int) -> dict[str, nn.Module]:
        """One vector of features per label."""
        from torch import nn

        return {GENERATOR: nn.Embedding(classes, feature_dim)}
