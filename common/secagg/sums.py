"""The sums of a table's columns as a vector that can be masked, and the sums of all from its sum.

Counts, sums and sums of squares of a client are between 0 and its number of rows, because values
are measured in units of their range. They are divided by max_examples, which nobody exceeds, and
spread over the range that can be masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedmirage.common.data.tables.comparison import hash_schema
from fedmirage.common.data.tables.statistics import COUNT, Sums, Unscaled, check_sums
from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.secagg.keys import Steps
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.wire.payload import Arrays

ROUND = 0  # the number of the secure round in which clients add up their columns
FINE = 1e-3  # the largest share of a variance that rounding may be


@dataclass(frozen=True)
class SumsVector:
    """Encodes the sums of one client, and decodes those of all."""

    secagg: SecAggOn
    columns: Sequence[Unscaled]

    @property
    def size(self) -> int:
        """How many numbers the vector has."""
        return 3 * len(self.columns)

    def encode(self, sums: Sums) -> Steps:
        """Make a client's vector; refuse what cannot be masked."""
        if sums[COUNT].max(initial=0) > self.secagg.max_examples:
            raise FedmirageError(
                "it has more examples than secagg's"
                f" max_examples={self.secagg.max_examples}; raise max_examples"
            )
        return np.asarray(np.rint(sums.ravel() / self._step), np.int64)

    def decode(self, total: Steps, active: int) -> Sums:
        """Return the sums over so many clients; refuse what they cannot have sent."""
        sums: Sums = np.asarray(total.reshape(3, -1) * self._step, np.float64)
        check_sums(sums, self.columns, active * self.secagg.max_examples, self.error(active))
        return sums

    def error(self, active: int) -> float:
        """How far a sum of so many clients may be from the true one: each rounds its own."""
        return active * self._step / 2

    def require_fine(self, sums: Sums, active: int) -> None:
        """Refuse sums in which the spread of a column drowns in rounding."""
        for column, (count, total, squares) in zip(self.columns, sums.T, strict=True):
            variance = squares / count - (total / count) ** 2 if count >= 1 else np.inf
            # The errors of the mean square, and of the mean, which is at most 1, twice.
            if variance < 3 * self.error(active) / max(count, 1.0) / FINE:
                raise FedmirageError(
                    f"secagg: the values of {column.column.name!r} differ too little beside the"
                    " range from low to high, so a secure sum cannot tell their deviation; bring"
                    " low and high in the schema closer to them, or write mean and std there"
                )

    @property
    def _step(self) -> float:
        """What one step of a masked number stands for: sums use the whole range of them."""
        return float(self.secagg.step * self.secagg.max_examples / self.secagg.clip)


def write_table(schema: str) -> Arrays:
    """Write which table is added up, in place of a model: the hash of its schema."""
    return [np.frombuffer(bytes.fromhex(hash_schema(schema)), np.uint8)]


def require_same_table(columns: Sequence[Unscaled], schema: str, told: Arrays) -> None:
    """Refuse to add up a table that is not the server's, or that needs no sums."""
    same = [array.tolist() for array in told] == [array.tolist() for array in write_table(schema)]
    if not columns or not same:
        raise WireError("the server asks for the sums of another table than this client's")
