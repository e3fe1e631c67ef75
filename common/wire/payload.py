"""What crosses the wire has names: sections of arrays, flattened for Flower, with a layout string
that describes the cut.

`shared` is what FedAvg averages; any other section belongs to the method that names it. Flower's
`Parameters` hold one bytes object an array, so that a section can be taken out of a message, or put
into it, without decoding the rest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
from flwr.common import Parameters, ndarrays_to_parameters, parameters_to_ndarrays

from common.errors import WireError

Array = npt.NDArray[Any]
Arrays = list[Array]
Sections = dict[str, Arrays]
SHARED = "shared"
LAYOUT = "layout"  # the key of the layout in FitIns.config and FitRes.metrics


def pack(sections: Mapping[str, Arrays]) -> tuple[Arrays, str]:
    """Flatten sections into one list, `shared` first, and say how to cut it: "shared:12
    control:10"."""
    names = sorted(sections, key=lambda name: (name != SHARED, name))
    return [array for name in names for array in sections[name]], " ".join(
        f"{name}:{len(sections[name])}" for name in names
    )


def unpack(arrays: Arrays, layout: str) -> Sections:
    """Cut a flat list into its sections; refuses arrays that the layout does not describe."""
    return {name: arrays[part] for name, part in slices(layout, len(arrays)).items()}


def slices(layout: str, total: int) -> dict[str, slice]:
    """Where each section lies; the layout must describe all arrays, each section once."""
    cuts: dict[str, slice] = {}
    start = 0
    for piece in layout.split():
        name, colon, count = piece.partition(":")
        if not name or not colon or not count.isdecimal() or name in cuts:
            raise WireError(f"the layout {layout!r} of a message cannot be read at {piece!r}")
        cuts[name] = slice(start, start + int(count))
        start += int(count)
    if start != total:
        raise WireError(
            f"the layout {layout!r} describes {start} arrays, but the message holds {total}"
        )
    return cuts


def take(parameters: Parameters, layout: str, name: str) -> tuple[Arrays, Parameters, str]:
    """Decode one section and return it with the message that is left."""
    cuts = slices(layout, len(parameters.tensors))
    if name not in cuts:
        raise WireError(f"a message lacks the section {name!r}; it holds {layout!r}")
    kept = [part for part in cuts if part != name]
    rest = [tensor for part in kept for tensor in parameters.tensors[cuts[part]]]
    counts = " ".join(f"{part}:{cuts[part].stop - cuts[part].start}" for part in kept)
    return decode(parameters.tensors[cuts[name]]), Parameters(rest, parameters.tensor_type), counts


def put(parameters: Parameters, layout: str, name: str, arrays: Arrays) -> tuple[Parameters, str]:
    """Append a section to a message."""
    if name in slices(layout, len(parameters.tensors)):
        raise WireError(f"a message holds the section {name!r} already: {layout!r}")
    added = ndarrays_to_parameters(arrays)
    return (
        Parameters([*parameters.tensors, *added.tensors], added.tensor_type),
        f"{layout} {name}:{len(arrays)}".strip(),
    )


def decode(tensors: Sequence[bytes]) -> Arrays:
    """Bytes as numpy arrays, without pickle; anything else that arrives is refused."""
    try:
        return parameters_to_ndarrays(Parameters(list(tensors), "numpy.ndarray"))
    except (ValueError, EOFError, TypeError) as error:
        raise WireError(f"an array in a message cannot be read: {error}") from None


def size(parameters: Parameters) -> int:
    """Bytes of a message's arrays."""
    return sum(map(len, parameters.tensors))
