"""The partition whose clients share samples: each draws its own, when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from fedmirage.common.data.partitions.counts import Indices


@dataclass(frozen=True)
class Drawn(Sequence[Indices]):
    """The parts of all clients, none of which is kept: a part is drawn anew by client and seed."""

    samples: int  # of the whole training split
    clients: int
    per_client: int
    seed: int

    def __len__(self) -> int:
        return self.clients

    @overload
    def __getitem__(self, client: int) -> Indices: ...

    @overload
    def __getitem__(self, client: slice) -> list[Indices]: ...

    def __getitem__(self, client: int | slice) -> Indices | list[Indices]:
        if isinstance(client, slice):
            return [self[one] for one in range(self.clients)[client]]
        # imported here, because it loads torch, which listing the partitions does not need
        from fedmirage.common.seeds import numpy_generator

        number = range(self.clients)[client]
        generator = numpy_generator(self.seed, "partition", "draw", number)
        drawn = generator.choice(self.samples, self.per_client, replace=False, shuffle=False)
        return np.sort(drawn).astype(np.int64)
