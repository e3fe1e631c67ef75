"""Checks the numbers of a reply against what its methods declare about them.

`ReplyCheck` knows what every reply must look like. Methods also know which numbers cannot be:
nobody makes a negative number of steps.
"""

from flwr.common import FitRes

from fedmirage.common.errors import WireError
from fedmirage.common.run import Run
from fedmirage.common.wire.payload import LAYOUT, decode, slices
from fedmirage.server.messages.replies import ReplyCheck


class BoundedReplyCheck(ReplyCheck):
    """Also refuses sections whose numbers lie below the least that they can hold."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.least = {one.name: one.least for one in run.sections if one.least is not None}

    def check(self, reply: FitRes) -> None:
        """Raise a sentence that says why a reply cannot be used."""
        super().check(reply)
        tensors = reply.parameters.tensors
        cuts = slices(str(reply.metrics[LAYOUT]), len(tensors))
        for name, least in self.least.items():
            lowest = min(array.min(initial=least) for array in decode(tensors[cuts[name]]))
            if lowest < least:
                raise WireError(f"its section {name!r} holds {lowest:g}, which is below {least:g}")
