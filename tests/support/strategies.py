"""Stand-ins for what strategies talk to."""

import numpy as np
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
)


class Client:
    """Stands for a proxy: all that the average looks at is the number of the partition."""

    def __init__(self, partition: int) -> None:
        self.cid = str(partition)


class NodeClient(Client):
    """A proxy that knows which node serves the partition."""

    def __init__(self, partition: int, node: int) -> None:
        super().__init__(partition)
        self.node_id = node


def reply(values: list[float], examples: int, layout: str = "shared:1", **metrics: float) -> FitRes:
    parameters = ndarrays_to_parameters([np.array(values, np.float32)])
    return FitRes(Status(Code.OK, ""), parameters, examples, {"layout": layout, **metrics})


class Manager:
    """Everybody is drawn."""

    def num_available(self) -> int:
        return 2

    def sample(self, num_clients: int, min_num_clients: int | None = None) -> list[Client]:
        return [Client(0), Client(1)]
