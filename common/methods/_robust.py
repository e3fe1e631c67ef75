"""What the median and the trimmed mean declare alike: all but how many values are left out."""

from typing import ClassVar

from fedmirage.common.method import Method, Place, Weighting


class RobustMethod(Method):
    """Nothing is remembered, and nothing extra is sent."""

    title: ClassVar[str] = (
        "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates"
    )
    authors: ClassVar[str] = "Yin et al., ICML 2018"
    link: ClassVar[str] = "https://arxiv.org/abs/1803.01498"
    place: ClassVar[Place] = Place.REPLACES
    weighting: ClassVar[Weighting | None] = "uniform"
    needs_each_client: ClassVar[str] = "model"
