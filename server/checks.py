"""What a client sends is checked before anything uses it: readable, of the right names, shapes and types, and finite."""

from collections.abc import Collection

import numpy as np
from flwr.common import FitRes

from common.errors import WireError
from common.payload import LAYOUT, SHARED, Arrays, decode, slices

HEADER = 256  # more bytes than numpy writes before an array's own
ERROR = "error"  # the key under which a client says why it has nothing to send


class ReplyCheck:
    """Knows the model that was sent out, and the sections that the methods of this run send back."""

    def __init__(self, reference: Arrays, names: list[str], sections: Collection[str]) -> None:
        self.reference, self.names, self.sections = reference, names, sections

    def problem(self, reply: FitRes) -> str | None:
        """Why a reply cannot be used, as a sentence; None if it can."""
        if ERROR in reply.metrics:
            return str(reply.metrics[ERROR])
        try:
            layout = str(reply.metrics.get(LAYOUT, ""))
            cuts = slices(layout, len(reply.parameters.tensors))
            unknown = [name for name in cuts if name != SHARED and name not in self.sections]
            if unknown or SHARED not in cuts:
                return f"its message holds {layout!r}, but this run sends {' '.join([SHARED, *self.sections])!r}"
            self._check_shared(reply.parameters.tensors[cuts[SHARED]])
            for name in self.sections:
                if name in cuts:
                    _check_finite(decode(reply.parameters.tensors[cuts[name]]), [name] * len(reply.parameters.tensors))
        except WireError as error:
            return str(error)
        if reply.num_examples < 0:
            return f"it reports {reply.num_examples} examples"
        return None

    def _check_shared(self, tensors: list[bytes]) -> None:
        if len(tensors) != len(self.reference):
            raise WireError(f"it sent {len(tensors)} arrays of the model, which has {len(self.reference)}")
        for name, tensor, expected in zip(self.names, tensors, self.reference, strict=True):
            if len(tensor) > expected.nbytes + HEADER:
                raise WireError(f"its array {name!r} has {len(tensor)} bytes, the model's {expected.nbytes}")
        arrays = decode(tensors)
        for name, array, expected in zip(self.names, arrays, self.reference, strict=True):
            if array.shape != expected.shape or array.dtype != expected.dtype:
                raise WireError(f"its array {name!r} is {array.dtype}{array.shape}, the model's {expected.dtype}{expected.shape}")
        _check_finite(arrays, self.names)


def _check_finite(arrays: Arrays, names: list[str]) -> None:
    for name, array in zip(names, arrays, strict=False):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WireError(f"its array {name!r} holds values that are not finite; its training diverged (lower lr?)")
