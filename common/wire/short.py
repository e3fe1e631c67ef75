"""Numbers in 16 bits: what `wire` makes of the differences that clients send.

A client sends w_i - w instead of w_i, and rounds every number to one of its two neighbours among
those that 16 bits can hold. A seeded draw decides which, with the chances that make the number
right on average (stochastic rounding), so the errors of many clients cancel.

This concerns `shared`, and the averaged sections that hold one number per weight, such as
SCAFFOLD's. Everything else stays as it is: BatchNorm's statistics, counts and single numbers,
images, and what the server looks at client by client. numpy has no bfloat16, so its bits travel as
16-bit integers, and the layout of the message declares what they are ("shared:12:bfloat16").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedmirage.common.errors import FedmirageError
from fedmirage.common.seeds import numpy_generator
from fedmirage.common.wire.payload import SHARED, Array, Arrays, Sections

if TYPE_CHECKING:
    from fedmirage.common.run import Run

Vector = npt.NDArray[np.float64]
PIECE = 2**15  # numbers that are rounded at a time; more do not fit into a processor's cache


@dataclass(frozen=True)
class ShortType:
    """A floating-point type of 16 bits."""

    digits: int  # binary digits after the point
    least: int  # the exponent below which numbers have fewer of them
    largest: float
    held: np.dtype[Any]  # how numpy holds it
    write: Callable[[Vector], Array]  # numbers that it can hold
    read: Callable[[Array], Array]  # as 32-bit floats, which hold them all

    def round(self, values: Vector, generator: np.random.Generator) -> Vector:
        """Round every number up or down, with the chances that make it right on average."""
        _, exponents = np.frexp(values)  # every |value| is at least 2^(exponent - 1)
        steps = np.maximum(exponents - 1, self.least) - self.digits
        counted = np.ldexp(values, -steps) + generator.random(values.shape)
        rounded: Vector = np.ldexp(np.floor(counted), steps)
        return rounded


# A bfloat16 is the first half of a 32-bit float.
SHORT = {
    "float16": ShortType(
        digits=10,
        least=-14,
        largest=65504.0,
        held=np.dtype(np.float16),
        write=lambda values: values.astype(np.float16),
        read=lambda array: array.astype(np.float32),
    ),
    "bfloat16": ShortType(
        digits=7,
        least=-126,
        largest=255 * 2.0**120,
        held=np.dtype(np.uint16),
        write=lambda values: (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
        read=lambda array: (array.astype(np.uint32) << 16).view(np.float32),
    ),
}


@dataclass(frozen=True)
class Wire:
    """What the clients of a run send in 16 bits, if anything."""

    run: Run

    @cached_property
    def types(self) -> dict[str, list[ShortType | None]]:
        """The type of every array of `shared` and of the sections; None leaves it as it is."""
        run, kind = self.run, SHORT.get(self.run.config.wire)
        unlike = set(run.shared.statistics.names)
        types = {SHARED: [None if name in unlike else kind for name in run.shared.names]}
        for section in run.sections:
            alike = section.holds == "weights" and section.summable
            types[section.name] = [kind if alike else None] * len(run.entries_of(section) or ())
        return types

    @cached_property
    def declared(self) -> dict[str, str]:
        """The types that a layout declares, by section."""
        return {name: self.run.config.wire for name, types in self.types.items() if any(types)}

    def shorten(self, sections: Sections, broadcast: Arrays, number: int, who: int) -> Sections:
        """Return what a client sends of its sections, in a round in which it got `broadcast`."""
        sent: Sections = {}
        for name, arrays in sections.items():
            generator = numpy_generator(self.run.config.seed, "wire", name, number, who)
            sent[name] = [
                array if kind is None else self._shorten(name, kind, array - before, generator)
                for kind, array, before in self._beside(name, arrays, broadcast)
            ]
        return sent

    def restore(self, sections: Sections, broadcast: Arrays) -> Sections:
        """Return the sections of a client that got `broadcast`, as they were but for rounding."""
        return {
            name: [
                array if kind is None else (before + kind.read(array)).astype(before.dtype)
                for kind, array, before in self._beside(name, arrays, broadcast)
            ]
            for name, arrays in sections.items()
        }

    def _beside(
        self, name: str, arrays: Arrays, broadcast: Arrays
    ) -> Iterable[tuple[ShortType | None, Array, Array]]:
        """Lay the type of every array beside it, and what its numbers are differences to."""
        zero = np.zeros((), np.float32)  # other sections than `shared` hold differences already
        reference = broadcast if name == SHARED else [zero] * len(arrays)
        types = self.types[name] or [None] * len(arrays)  # only the method knows how many there are
        return zip(types, arrays, reference, strict=True)

    def _shorten(
        self, section: str, kind: ShortType, difference: Array, generator: np.random.Generator
    ) -> Array:
        """Round the numbers of an array; refuse one that the type cannot hold."""
        values, sent = difference.ravel(), np.empty(difference.size, kind.held)
        for start in range(0, difference.size, PIECE):
            piece = slice(start, start + PIECE)
            rounded = kind.round(values[piece].astype(np.float64), generator)
            if not (largest := np.abs(rounded).max()) <= kind.largest:
                raise FedmirageError(
                    f"the section {section!r} holds {largest:g}, and wire={self.run.config.wire!r}"
                    f" ends at {kind.largest:g}; lower lr, or write wire='float32'"
                )
            sent[piece] = kind.write(rounded)
        return sent.reshape(difference.shape)
