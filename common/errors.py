"""Errors that a user reads: sentences that name the key, the value and the fix."""

from collections.abc import Sequence


class FedmirageError(Exception):
    """An error that the user can correct; it is printed without a stack trace, exit code 1."""


class ConfigurationError(FedmirageError):
    """All problems of a configuration at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type["ConfigurationError"], tuple[list[str]]]:
        return type(self), (self.problems,)


class DataError(FedmirageError):
    """Data that are missing, corrupt, or not what their description promises."""


class WireError(FedmirageError):
    """A message whose content does not match its layout or the model."""
