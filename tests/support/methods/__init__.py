"""Two methods that use every seam that no published method needs yet.

`sketch` shares a generator and the classifier and keeps the features, as FedMD-CG will; `stand-in`
replaces the clients' data and learns from the average, as FedLGD will. They lie in folders like
those of real methods, and `add_methods` lets the three packages find them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fedmirage.client.methods as client
import fedmirage.common.methods as common
import fedmirage.server.methods as server
from fedmirage.common.methods import METHODS, find_methods

HERE = Path(__file__).parent
PACKAGES = {"common": common, "client": client, "server": server}


@contextmanager
def add_methods() -> Iterator[None]:
    """Make the methods of this folder available like published ones."""
    for side, package in PACKAGES.items():
        package.__path__.append(str(HERE / side))
    known = set(METHODS)
    METHODS.update(find_methods())
    try:
        yield
    finally:
        for name in METHODS.keys() - known:
            del METHODS[name]
        for side, package in PACKAGES.items():
            package.__path__.remove(str(HERE / side))
