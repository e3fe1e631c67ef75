"""Local training: every client trains alone. Any federation has to beat this lower bound.

Of the five papers, FedMD-CG has it in its tables.

One round
    server -> client   nothing (0 arrays)
    client             goes on training its own model; the first time it starts from the common
                       initial model
    client -> server   nothing (0 arrays); metrics about its own model, if they are asked for
    server             nothing

There is no global model, so results have no `accuracy`. Instead, they score the local models on IID
shards of the test set (FedMD-CG's L.acc) and, on a host that has all clients, the average of all
local models on the test set (its G.acc), each under a name of its own.
"""

from typing import ClassVar

from fedmirage.common.method import Method, Parts


class Local(Method):
    """Nothing to set."""

    name: ClassVar[str] = "local"
    title: ClassVar[str] = "Local training, without any exchange"
    authors: ClassVar[str] = "a baseline without a paper"
    link: ClassVar[str] = ""
    parts: ClassVar[Parts] = Parts(sends=())
