"""Checks every reply before anything uses it.

It must be readable, have the right names, shapes and types, and hold finite numbers.
"""

from collections.abc import Sequence

import numpy as np
from flwr.common import FitRes

from common.errors import WireError
from common.run import Run
from common.wire.figures import ERROR, check_declared, declared_figures
from common.wire.manifest import Entry
from common.wire.payload import LAYOUT, SHARED, decode, slices

HEADER = 256  # more bytes than numpy writes before the content of an array


class ReplyCheck:
    """Knows the model that was sent out, and the sections that this run's methods send back."""

    def __init__(self, run: Run) -> None:
        self.expected: dict[str, Sequence[Entry] | None] = {SHARED: run.shared.entries}
        self.expected |= {section.name: run.entries_of(section) for section in run.sections}
        self.figures = declared_figures(run)

    def problem(self, reply: FitRes) -> str | None:
        """Say in a sentence why a reply cannot be used; return None if it can."""
        if ERROR in reply.metrics:
            return str(reply.metrics[ERROR])
        layout = str(reply.metrics.get(LAYOUT, ""))
        try:
            cuts = slices(layout, len(reply.parameters.tensors))
            if cuts.keys() != self.expected.keys():
                return (
                    f"its message holds {layout!r}, but this run sends {' '.join(self.expected)!r}"
                )
            for name, cut in cuts.items():
                check_section(name, reply.parameters.tensors[cut], self.expected[name])
            check_declared({**reply.metrics, LAYOUT: None}, (*self.figures, LAYOUT))
        except WireError as error:
            return str(error)
        return f"it reports {reply.num_examples} examples" if reply.num_examples < 0 else None


def check_section(section: str, tensors: list[bytes], expected: Sequence[Entry] | None) -> None:
    """Raise a sentence about the first array that is not as it should be."""
    what = "the model" if section == SHARED else f"the section {section!r}"
    if expected is not None:
        if len(tensors) != len(expected):
            raise WireError(f"it sent {len(tensors)} arrays of {what}, which has {len(expected)}")
        for tensor, entry in zip(tensors, expected, strict=True):
            size = entry.size * (entry.dtype or np.dtype(np.float64)).itemsize
            if len(tensor) > size + HEADER:
                raise WireError(
                    f"its array {entry.name!r} has {len(tensor)} bytes, but in {what} it has {size}"
                )
    arrays = decode(tensors)
    if expected is None:
        expected = [Entry(section, array.shape, None) for array in arrays]
    for array, entry in zip(arrays, expected, strict=True):
        if array.shape != entry.shape or entry.dtype not in (None, array.dtype):
            raise WireError(
                f"its array {entry.name!r} is {array.dtype}{array.shape}, but in {what} it is"
                f" {entry.dtype or ''}{entry.shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WireError(
                f"its array {entry.name!r} holds values that are not finite; its training diverged"
                " (lower lr?)"
            )
