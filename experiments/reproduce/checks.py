"""What is wrong with a file of tables, pages or jobs, in sentences."""

from pydantic import ValidationError


def complaints(error: ValidationError) -> list[str]:
    """List the problems that were found, each with its place in the file."""
    return [
        f"{'.'.join(map(str, one['loc'])) or 'as a whole'}: {one['msg']}" for one in error.errors()
    ]
