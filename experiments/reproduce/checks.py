"""What a file of tables, pages or jobs may hold, and what is wrong with one, in sentences."""

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from fedmirage.common.errors import ConfigurationError
from fedmirage.settings.layers import read_toml


class Written(BaseModel):
    """A part of a TOML file; a key that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, path: Path, what: str, **more: Any) -> Self:
        """Read a file; each problem is named with its place in it."""
        try:
            return cls.model_validate({**read_toml(path, what), **more})
        except ValidationError as error:
            found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
            problems = [f"{path}: {place or 'as a whole'}: {told}" for place, told in found]
            raise ConfigurationError(problems) from None
