"""Messages as named sections of arrays, flattened for Flower; a layout string says how to split.

`shared` is what FedAvg averages; any other section belongs to the method that names it. Flower's
`Parameters` hold one bytes object per array, so that a section can be removed from a message, or
added to it, without decoding the rest.
"""

import io
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.common import Parameters, ndarrays_to_parameters
from numpy.lib import format as npy

from fedmirage.common.errors import WireError
from fedmirage.common.wire.filed import FiledTensors

Array = npt.NDArray[Any]
Arrays = list[Array]
Sections = dict[str, Arrays]
SHARED = "shared"
LONGEST_HEADER = 16_384  # bytes; numpy itself refuses to parse more than 10,000 characters
LAYOUT = "layout"  # the key of the layout in FitIns.config and FitRes.metrics
ONLY_SCORES = "only_scores"  # the key in FitIns.config with which clients score and do not train


def pack(
    sections: Mapping[str, Arrays], declared: Mapping[str, str] | None = None
) -> tuple[Arrays, str]:
    """Flatten sections, `shared` first, into arrays and a layout such as "shared:12 control:10".

    A section whose numbers travel in a shorter type declares it: "shared:12:bfloat16".
    """
    names = sorted(sections, key=lambda name: (name != SHARED, name))
    types = {name: f":{kind}" for name, kind in (declared or {}).items()}
    return [array for name in names for array in sections[name]], " ".join(
        f"{name}:{len(sections[name])}{types.get(name, '')}" for name in names
    )


def unpack(arrays: Arrays, layout: str) -> Sections:
    """Split a flat list into its sections; raises a WireError if the layout does not fit."""
    return {name: arrays[part] for name, part in slices(layout, len(arrays)).items()}


def slices(layout: str, total: int) -> dict[str, slice]:
    """The slice of each section; the layout must cover all arrays and name each section once.

    A section with a shorter type of its own is refused: whoever can read it calls `read_layout`.
    """
    cuts, declared = read_layout(layout, total)
    for name, kind in declared.items():
        raise WireError(f"the section {name!r} is declared as {kind!r}, which is not read here")
    return cuts


def read_layout(layout: str, total: int) -> tuple[dict[str, slice], dict[str, str]]:
    """Read the slice of each section, and the types of the sections that declare one."""
    cuts: dict[str, slice] = {}
    declared: dict[str, str] = {}
    start = 0
    for piece in layout.split():
        name, *others = piece.split(":")
        count, kind = (others + [""] * 2)[:2]
        if not name or not count.isdecimal() or len(others) != 1 + bool(kind) or name in cuts:
            raise WireError(
                f"the layout {layout!r} of a message cannot be read at {piece!r}; write name:count"
                " once per section"
            )
        cuts[name] = slice(start, start + int(count))
        declared |= {name: kind} if kind else {}
        start += int(count)
    if start != total:
        raise WireError(
            f"the layout {layout!r} describes {start} arrays, but the message holds {total}"
        )
    return cuts, declared


def take(parameters: Parameters, layout: str, name: str) -> tuple[Arrays, Parameters, str]:
    """Remove one section from a message; returns its arrays, the rest, and the rest's layout."""
    taken, rest, left = cut(parameters, layout, name)
    return decode(taken), rest, left


def cut(parameters: Parameters, layout: str, name: str) -> tuple[Sequence[bytes], Parameters, str]:
    """Do the same without decoding the section; what is in a file stays there."""
    tensors = parameters.tensors
    cuts = slices(layout, len(tensors))
    if name not in cuts:
        raise WireError(f"a message lacks the section {name!r}; its layout is {layout!r}")
    others = [other for other in cuts if other != name]
    places = [place for other in others for place in range(len(tensors))[cuts[other]]]
    rest: Any = tensors.pick(places) if isinstance(tensors, FiledTensors) else None
    rest = [tensors[place] for place in places] if rest is None else rest
    left = " ".join(f"{other}:{cuts[other].stop - cuts[other].start}" for other in others)
    return tensors[cuts[name]], Parameters(rest, parameters.tensor_type), left


def put(parameters: Parameters, layout: str, name: str, arrays: Arrays) -> tuple[Parameters, str]:
    """Append a section to a message."""
    if name in slices(layout, len(parameters.tensors)):
        raise WireError(f"a message already holds the section {name!r}; its layout is {layout!r}")
    added = ndarrays_to_parameters(arrays)
    return (
        Parameters([*parameters.tensors, *added.tensors], added.tensor_type),
        f"{layout} {name}:{len(arrays)}".strip(),
    )


def decode(tensors: Sequence[bytes]) -> Arrays:
    """Decode bytes in numpy's format as arrays; anything else is refused."""
    return [decode_one(tensor) for tensor in tensors]


def decode_one(tensor: bytes) -> Array:
    """Decode one array of plain numbers as an array of its own."""
    return view(tensor).copy()


def view(tensor: bytes) -> Array:
    """Look at the numbers of one array in the bytes that came, which cannot be changed.

    The header is read first and compared with the number of bytes that came, so that nothing is
    allocated for numbers that a header only promises.
    """
    shape, column_first, dtype, start = read_header(tensor[: find_start(tensor)])
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(tensor) - start:
        raise WireError(
            f"an array in a message promises the shape {shape}, but {len(tensor) - start}"
            f" bytes of {dtype.str!r} came"
        )
    flat = np.frombuffer(tensor, dtype, count, start)
    return flat.reshape(shape, order="F" if column_first else "C")


def find_start(tensor: bytes) -> int:
    """Return where the numbers of an array begin, as its first bytes say; `read_header` checks it.

    The length of the header follows the magic string and the version: two bytes, or four in 2.0.
    """
    wide = tensor[6:7] == b"\x02"
    fixed = 12 if wide else 10
    return min(fixed + int.from_bytes(tensor[8:fixed], "little"), LONGEST_HEADER)


@lru_cache(maxsize=1024)
def read_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read (shape, column first, type, where the numbers begin) from the first bytes of an array.

    The arrays of all clients begin with the same bytes, which numpy would parse again each time.
    """
    file = io.BytesIO(header)
    try:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise WireError(f"an array in a message has numpy's format {version}, not 1.0 or 2.0")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, column_first, dtype = read(file)
    except WireError:
        raise
    # The header is text that anybody may have written, and numpy parses it.
    except Exception as error:
        raise WireError(
            f"an array in a message cannot be read: {type(error).__name__} in its header"
        ) from None
    if dtype.kind not in "biuf" or dtype.hasobject:
        raise WireError(f"an array in a message holds {dtype.str!r}, and not plain numbers")
    return shape, column_first, dtype, file.tell()


def size(parameters: Parameters) -> int:
    """How many bytes the arrays of a message take."""
    tensors: Any = parameters.tensors
    return tensors.size if isinstance(tensors, FiledTensors) else sum(map(len, tensors))
