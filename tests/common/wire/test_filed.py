"""Arrays of a message in a file: read one by one, as they were, or not at all."""

from pathlib import Path

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters

from fedmirage.common.errors import FedmirageError
from fedmirage.common.wire.filed import FiledTensors, write_tensors
from fedmirage.common.wire.payload import cut, decode, size


@pytest.fixture
def tensors() -> list[bytes]:
    arrays = [np.arange(12.0).reshape(3, 4), np.zeros((0, 2), np.float32), np.float32([7])]
    return ndarrays_to_parameters([*arrays, np.array(5)]).tensors


def test_it_stands_for_a_list(tmp_path: Path, tensors: list[bytes]) -> None:
    filed = write_tensors(tmp_path / "replies" / "1.safetensors", tensors)
    assert list(filed) == tensors
    assert (len(filed), filed.size) == (4, sum(map(len, tensors)))
    assert (filed[0], filed[-1], list(filed[1:3])) == (tensors[0], tensors[3], tensors[1:3])
    assert isinstance(filed[1:3], FiledTensors)
    assert list(filed.pick([3, 1])) == [tensors[3], tensors[1]]
    with pytest.raises(IndexError):
        filed[4]
    assert (tmp_path / "replies" / "1.safetensors").stat().st_mode & 0o077 == 0


def test_a_section_is_cut_out_without_reading_the_rest(
    tmp_path: Path, tensors: list[bytes]
) -> None:
    whole = ndarrays_to_parameters(decode(tensors))
    filed = write_tensors(tmp_path / "1.safetensors", tensors)
    whole.tensors = filed  # type: ignore[assignment]
    section, rest, layout = cut(whole, "shared:2 more:2", "more")
    assert isinstance(rest.tensors, FiledTensors)
    assert (list(section), list(rest.tensors), layout) == (tensors[2:], tensors[:2], "shared:2")
    (tmp_path / "1.safetensors").unlink()
    assert size(rest) == sum(map(len, tensors[:2]))
    with pytest.raises(FedmirageError, match="cannot be read again"):
        list(rest.tensors)


def test_a_flipped_bit_is_a_sentence(tmp_path: Path, tensors: list[bytes]) -> None:
    path = tmp_path / "1.safetensors"
    filed = write_tensors(path, tensors)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert filed[0] == tensors[0]
    with pytest.raises(FedmirageError, match="is not what was written there"):
        filed[3]
