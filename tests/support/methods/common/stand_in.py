"""Stand-in: clients train on a few images that stand in for their own.

One round
    server -> client   the model
    client             replaces its data by the mean image of every class that it has
    client -> server   its model
    server             averages with equal weights, and keeps how far the average moved
"""

from typing import ClassVar

from fedmirage.common.method import Method, Place, Weighting


class StandIn(Method):
    """A method that no paper has."""

    name: ClassVar[str] = "stand-in"
    title: ClassVar[str] = "A stand-in"
    authors: ClassVar[str] = "nobody"
    link: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = ("stand-in.before", "stand-in.after")

    replaces_data: ClassVar[bool] = True
    place: ClassVar[Place] = Place.READS
    weighting: ClassVar[Weighting | None] = "uniform"
