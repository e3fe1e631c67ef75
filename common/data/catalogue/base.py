"""What can be set about every data set."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from fedmirage.common.data.catalogue.cards import CARDS, Card
from fedmirage.common.settings.language import Params

# In Python ("user") is a text, not a tuple: accept it as the tuple that was meant.
Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


class DatasetParams(Params):
    """The parameters of every data set."""

    card: ClassVar[Card]  # by its name, from cards.toml

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
    limit: int | None = Field(None, ge=1)
    """Keeps this many training samples and a fifth as many test samples (but at least 200), by a
    draw that depends only on the content."""

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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.card = CARDS.get(cls.name, Card())

    def about(self) -> Card:
        """Return the facts about the set with these parameters."""
        return self.card

    def made_from(self) -> str | None:
        """Return the name of the set whose files are read, if it is another one."""
        return None
