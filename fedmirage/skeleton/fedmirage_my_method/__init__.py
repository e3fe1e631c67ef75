"""My method: the mean prediction of every batch is held to the labels of the whole federation.

Replace this text, and the example below, by your own method.

One round
    server -> client   the model, and p(y), the share of every class in the whole federation
    client             trains on the task loss + strength * KL(p || mean softmax of the batch)
    client -> server   its model, and how many samples it has of each class
    server             averages; p(y) becomes the shares of the summed counts

Sections: `my-method.prior` goes down, `my-method.counts` goes up. Remembered: nothing.
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedmirage.common.method import Method, Section

PRIOR, COUNTS = "my-method.prior", "my-method.counts"


class MyMethod(Method):
    """strength=0 gives FedAvg."""

    name: ClassVar[str] = "my-method"
    title: ClassVar[str] = "The title of its paper"
    authors: ClassVar[str] = "Its authors"
    link: ClassVar[str] = ""
    # What its clients report: "term." and the name of a loss, or names of its own.
    metrics: ClassVar[tuple[str, ...]] = ("term.my-method",)
    # The parameters that take away what is supposed to help; comparisons run them beside it.
    placebo: ClassVar[dict[str, Any]] = {"shuffle": True}
    # The parameters with which two short rounds show that it does something, for the tests.
    quick: ClassVar[dict[str, Any]] = {"strength": 1.0}
    single_label_because: ClassVar[str] = "a softmax gives one class per sample"

    # One number per class. Its plain sum is enough, so it may travel masked; counts are larger than
    # what secure aggregation clips at, so they are `wide`.
    up: ClassVar[tuple[Section, ...]] = (
        Section(COUNTS, "uniform", holds=lambda classes, shape: [(classes,)], wide=True),
    )
    down: ClassVar[tuple[Section, ...]] = (Section(PRIOR, holds=None),)

    strength: Annotated[float, Field(ge=0)] = 0.5
    """The weight of the term; 0 gives FedAvg."""
    shuffle: bool = False
    """Give every class the share of its neighbour, as a placebo."""
