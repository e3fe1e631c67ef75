"""What a client sends is checked before anything uses it: readable, of the right names, shapes and
types, and finite."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.common import FitRes

from common.errors import WireError
from common.method import Section
from common.wire.payload import LAYOUT, SHARED, Arrays, decode, slices

Entry = tuple[str, tuple[int, ...], np.dtype[Any] | None]  # name, shape, type (None: any)

HEADER = 256  # more bytes than numpy writes before an array's own
ERROR = "error"  # the key under which a client says why it has nothing to send


class ReplyCheck:
    """Knows the model that was sent out, and the sections that the methods of this run send
    back."""

    def __init__(
        self,
        names: Sequence[str],
        reference: Arrays,
        trainable: Sequence[bool],
        sections: Sequence[Section] = (),
    ) -> None:
        self.model: list[Entry] = [
            (name, array.shape, array.dtype) for name, array in zip(names, reference, strict=True)
        ]
        self.weights = [entry for entry, moves in zip(self.model, trainable, strict=True) if moves]
        self.sections = {section.name: section for section in sections}

    def problem(self, reply: FitRes) -> str | None:
        """Why a reply cannot be used, as a sentence; None if it can."""
        if ERROR in reply.metrics:
            return str(reply.metrics[ERROR])
        layout = str(reply.metrics.get(LAYOUT, ""))
        try:
            cuts = slices(layout, len(reply.parameters.tensors))
            if set(cuts) != {SHARED, *self.sections}:
                return (
                    f"its message holds {layout!r}, but this run sends"
                    f" {' '.join([SHARED, *self.sections])!r}"
                )
            for name, cut in cuts.items():
                check_section(name, reply.parameters.tensors[cut], self.expected(name))
        except WireError as error:
            return str(error)
        return f"it reports {reply.num_examples} examples" if reply.num_examples < 0 else None

    def expected(self, section: str) -> list[Entry] | None:
        """Name, shape and type of every array of a section; None where only the method knows."""
        if section == SHARED:
            return self.model
        holds = self.sections[section].holds
        if holds == "number":
            return [(section, (1,), None)]
        return self.weights if holds == "weights" else None


def check_section(section: str, tensors: list[bytes], expected: list[Entry] | None) -> None:
    """Raise with the first array that is not as it should be."""
    what = "the model" if section == SHARED else f"the section {section!r}"
    if expected is not None:
        if len(tensors) != len(expected):
            raise WireError(f"it sent {len(tensors)} arrays of {what}, which has {len(expected)}")
        for tensor, (name, shape, dtype) in zip(tensors, expected, strict=True):
            size = math.prod(shape) * (dtype or np.dtype(np.float64)).itemsize
            if len(tensor) > size + HEADER:
                raise WireError(
                    f"its array {name!r} has {len(tensor)} bytes, that of {what} {size}"
                )
    arrays = decode(tensors)
    for array, (name, shape, dtype) in zip(
        arrays, expected or [(section, array.shape, None) for array in arrays], strict=True
    ):
        if array.shape != shape or (dtype is not None and array.dtype != dtype):
            raise WireError(
                f"its array {name!r} is {array.dtype}{array.shape}, that of {what}"
                f" {dtype or ''}{shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WireError(
                f"its array {name!r} holds values that are not finite; its training diverged (lower"
                " lr?)"
            )
