"""What a file of tables, pages or jobs may hold, and what is wrong with one, in sentences."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Written(BaseModel):
    """A part of a TOML file; a key that it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def complaints(error: ValidationError) -> list[str]:
    """List the problems that were found, each with its place in the file."""
    return [
        f"{'.'.join(map(str, one['loc'])) or 'as a whole'}: {one['msg']}" for one in error.errors()
    ]
