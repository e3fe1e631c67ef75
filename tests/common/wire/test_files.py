"""Files of arrays: whole or not at all, as they were written or a sentence."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fedmirage.common.errors import DataError
from fedmirage.common.wire.files import read_arrays, write_arrays

NAMED = {
    "b": np.arange(6.0).reshape(2, 3).T,
    "a": np.array(7),
    "none": np.zeros((0, 2), np.float32),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.safetensors"
    write_arrays(path, NAMED, {"round": 3, "text": "ä"})
    arrays, facts = read_arrays(path)
    assert facts == {"round": 3, "text": "ä"}
    assert set(arrays) == set(NAMED)
    for name, array in NAMED.items():
        assert np.array_equal(arrays[name], array)
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)


@pytest.mark.parametrize(("private", "mode"), [(False, 0o640), (True, 0o600)])
def test_who_may_read_a_file(tmp_path: Path, private: bool, mode: int) -> None:
    """The umask decides, unless the file is private."""
    path = tmp_path / "folder" / "file.safetensors"
    before = os.umask(0o027)
    try:
        write_arrays(path, NAMED, private=private)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(path.parent.stat().st_mode) == (0o700 if private else 0o750)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    write_arrays(path, {"a": np.ones(3)})
    with pytest.raises(SafetensorError):
        write_arrays(path, {"a": np.array(["text"])})
    assert np.array_equal(read_arrays(path)[0]["a"], np.ones(3))
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]


def test_a_missing_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        read_arrays(tmp_path / "nothing.safetensors")
    save_file({"a": np.ones(3)}, tmp_path / "foreign.safetensors", {"by": "others"})
    with pytest.raises(DataError, match="carries no checksum"):
        read_arrays(tmp_path / "foreign.safetensors")


def test_damage_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    """Every bit of a small file, flipped one at a time, and every length that it can be cut to."""
    path = tmp_path / "file.safetensors"
    write_arrays(path, {"a": np.arange(4, dtype=np.float32)}, {"round": 3})
    whole = path.read_bytes()
    noticed = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            arrays, facts = read_arrays(path)
        except DataError:
            noticed += 1
            continue
        # Only what has no meaning may differ: the white space that fills the header.
        assert facts == {"round": 3}
        assert arrays["a"].tolist() == [0, 1, 2, 3]
    assert noticed > 0.9 * 8 * len(whole)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError):
            read_arrays(path)
