"""What can be set about every data set."""

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from fedmirage.common.data.catalogue.cards import CARDS, Card
from fedmirage.common.settings.language import Params

MOST_CLASSES = 100_000  # a head of more outputs is a mistyped number
# In Python ("user") is a text, not a tuple: accept it as the tuple that was meant.
Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


class DatasetParams(Params):
    """The parameters of every data set."""

    card: ClassVar[Card]  # by its name, from cards.toml

    limit: int | None = Field(None, ge=1)
    """Keeps this many training samples and a fifth as many test samples (but at least 200), by a
    draw that depends only on the content."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.card = CARDS.get(cls.name, Card())

    def about(self) -> Card:
        """Return the facts about the set with these parameters."""
        return self.card

    def made_from(self) -> str | None:
        """Return the name of the set whose files are read, if it is another one."""
        return None

    @property
    def pictures(self) -> bool:
        """Whether its inputs are pictures."""
        return False

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of one input, as far as it is known before any file is opened."""
        return self.about().shape

    @property
    def missing_shape(self) -> str:
        """What to write if it is not known."""
        return "size= and channels="

    @property
    def scaled_by_content(self) -> bool:
        """Whether the inputs are normalised by numbers that only the content gives."""
        return True


class PictureParams(DatasetParams):
    """The parameters of every set of pictures."""

    size: int | None = Field(None, ge=1, le=1024)
    """Side in pixels to which every picture is resized once, when it is decoded (bilinear,
    antialiased); None keeps the size in the files."""
    channels: Literal[1, 3] | None = None
    """1 averages the colours, 3 repeats the grey channel; None keeps the channels in the files."""
    mean: float | tuple[float, ...] | None = None
    """Subtracted from pixels in [0, 1]: one number, or one per channel; None takes the usual value
    of the set."""
    std: float | tuple[float, ...] | None = None
    """Pixels are divided by it after the subtraction: one positive number, or one per channel; None
    takes the usual value of the set."""

    @field_validator("mean", "std", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        numbers = value if isinstance(value, tuple | list) else () if value is None else (value,)
        if not all(
            isinstance(number, int | float) and not isinstance(number, bool) for number in numbers
        ):
            raise ValueError("write a number, or a tuple with one number per channel")
        return value

    @field_validator("std")
    @classmethod
    def _positive(cls, value: float | tuple[float, ...] | None) -> float | tuple[float, ...] | None:
        numbers = value if isinstance(value, tuple) else () if value is None else (value,)
        if any(number <= 0 for number in numbers):
            raise ValueError("a standard deviation divides the pixels; write numbers above 0")
        return value

    @property
    def pictures(self) -> bool:
        """Whether its inputs are pictures."""
        return True

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of one picture, as published or as the parameters say."""
        channels, height, width = self.about().shape or (None, None, None)
        shape = self.channels or channels, self.size or height, self.size or width
        return None if None in shape else tuple(filter(None, shape))

    @property
    def scaled_by_content(self) -> bool:
        """Whether the inputs are normalised by numbers that only the content gives."""
        return False


class OwnParams(DatasetParams):
    """The parameters of data of your own.

    The default normalisation of pictures is 0.5/0.5, because values computed from the data would
    differ between nodes.
    """

    path: str = Field(min_length=1)
    """Where it is: absolute, or relative to the data folder or else to the current folder."""
    test_share: float = Field(0.2, ge=0, lt=1)
    """Share of every class that is held out as the test set where the files have no test split. A
    node with data of its own holds out nothing unless the run scores local models; where all nodes
    have their own, the server tests on all of its set."""
    classes: int | tuple[str, ...] | None = None
    """Number or names of the classes; needed where a node may lack some of them, so all nodes
    number them in the same way."""

    @field_validator("classes", mode="before")
    @classmethod
    def _count_or_names(cls, value: Any) -> Any:
        names = isinstance(value, tuple | list) and all(isinstance(name, str) for name in value)
        count = isinstance(value, int) and not isinstance(value, bool)
        if not (value is None or names or count):
            raise ValueError("write the number of classes, or a tuple of their names")
        return value

    @field_validator("classes")
    @classmethod
    def _two_or_more(cls, value: int | tuple[str, ...] | None) -> int | tuple[str, ...] | None:
        if isinstance(value, tuple) and len(set(value)) < len(value):
            raise ValueError("a class is named twice")
        if value is not None and (value if isinstance(value, int) else len(value)) < 2:
            raise ValueError("there must be two classes or more")
        if isinstance(value, int) and value > MOST_CLASSES:
            raise ValueError(f"there can be {MOST_CLASSES} classes at the most")
        return value

    def about(self) -> Card:
        """Return the facts that the parameters state."""
        names = self.classes if isinstance(self.classes, tuple) else ()
        count = self.classes if isinstance(self.classes, int) else None
        return replace(self.card, classes=names, count=count)
