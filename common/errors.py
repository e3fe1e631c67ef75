"""Errors that a user reads: sentences that name the key, the value and the fix."""

from collections.abc import Sequence


class FedmirageError(Exception):
    """Anything that a user can mend; printed without a stack trace, exit code 1."""


class ConfigurationError(FedmirageError):
    """Every problem of a configuration at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type["ConfigurationError"], tuple[list[str]]]:
        return type(self), (self.problems,)


class DataError(FedmirageError):
    """Data that is missing, corrupt, or not what its description promises."""


class WireError(FedmirageError):
    """A message whose content is not what its layout or the model says."""
