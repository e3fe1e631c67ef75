"""Named sections: flattened for Flower and restored; what the layout does not fit is refused."""

import numpy as np
import pytest
from flwr.common import Parameters, ndarrays_to_parameters

from fedmirage.common.errors import WireError
from fedmirage.common.wire.payload import decode, pack, put, size, slices, take, unpack

SHARED = [np.ones((2, 3), np.float32), np.zeros(3, np.float32)]
CONTROL = [np.full(4, 2.0, np.float32)]


def test_pack_and_unpack() -> None:
    arrays, layout = pack({"control": CONTROL, "shared": SHARED})
    assert layout == "shared:2 control:1"
    sections = unpack(arrays, layout)
    assert [len(section) for section in sections.values()] == [2, 1]
    assert sections["control"][0] is CONTROL[0]


def test_an_empty_section_survives() -> None:
    arrays, layout = pack({"shared": [], "control": CONTROL})
    assert unpack(arrays, layout)["shared"] == []


@pytest.mark.parametrize(
    "layout",
    [
        "shared:2",
        "shared:4",
        "shared",
        "shared:x 1",
        "shared:2 shared:1",
        ":3",
        "shared:-1 a:4",
        "",
    ],
)
def test_a_layout_must_describe_every_array(layout: str) -> None:
    with pytest.raises(WireError, match="layout"):
        unpack([*SHARED, *CONTROL], layout)


def test_sections_come_and_go_without_decoding_the_rest() -> None:
    parameters = ndarrays_to_parameters(SHARED)
    more, layout = put(parameters, "shared:2", "control", CONTROL)
    assert layout == "shared:2 control:1"
    assert more.tensors[:2] == parameters.tensors
    arrays, rest, left = take(more, layout, "control")
    np.testing.assert_array_equal(arrays[0], CONTROL[0])
    assert left == "shared:2"
    assert rest.tensors == parameters.tensors
    with pytest.raises(WireError, match="lacks the section 'control'"):
        take(rest, left, "control")
    with pytest.raises(WireError, match="already"):
        put(more, layout, "control", CONTROL)


def test_bytes_that_are_no_array_are_refused() -> None:
    with pytest.raises(WireError, match="cannot be read"):
        decode([b"not an array"])


def test_pickled_arrays_are_refused() -> None:
    import io

    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(WireError):
        decode([stream.getvalue()])


def test_size_counts_the_bytes_on_the_wire() -> None:
    assert size(Parameters([b"123", b"4567"], "numpy.ndarray")) == 7
    assert slices("", 0) == {}
