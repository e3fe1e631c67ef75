"""What a client remembers, round by round, so that a repeated round has the same start."""

import stat
from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.memory import LOCAL_EXAMPLES, LOCAL_MODEL, Memory, local_models, versions


def remember(folder: Path, number: int, value: float, **more: bool) -> None:
    memory = Memory(folder, number, **more)
    memory.put("moon.previous", [np.full(3, value, np.float32), np.array(value)])
    memory.close()


def recall(folder: Path, number: int) -> float | None:
    arrays = Memory(folder, number).get("moon.previous")
    return None if arrays is None else float(arrays[0][0])


def test_first_visit_knows_nothing(tmp_path: Path) -> None:
    memory = Memory(tmp_path, 1)
    assert "moon.previous" not in memory
    assert memory.age is None


def test_a_round_sees_the_newest_earlier_round(tmp_path: Path) -> None:
    remember(tmp_path, 1, 1.0)
    remember(tmp_path, 4, 4.0)
    assert [recall(tmp_path, number) for number in (1, 2, 4, 5, 9)] == [None, 1.0, 1.0, 4.0, 4.0]
    assert Memory(tmp_path, 9).age == 5


def test_a_repeated_round_starts_from_the_same_memory(tmp_path: Path) -> None:
    remember(tmp_path, 1, 1.0)
    remember(tmp_path, 2, 2.0)
    assert recall(tmp_path, 2) == 1.0  # round 2 again, after a crash
    remember(tmp_path, 2, 2.5)
    assert recall(tmp_path, 3) == 2.5


def test_only_what_a_repeat_can_need_is_kept(tmp_path: Path) -> None:
    for number in range(1, 6):
        remember(tmp_path, number, float(number))
    assert [path.name for path in versions(tmp_path)] == [
        "round-00004.safetensors",
        "round-00005.safetensors",
    ]
    remember(tmp_path / "all", 1, 1.0, keep_all=True)
    remember(tmp_path / "all", 2, 2.0, keep_all=True)
    remember(tmp_path / "all", 3, 3.0, keep_all=True)
    assert len(versions(tmp_path / "all")) == 3


def test_a_round_that_ends_late_deletes_nothing_newer(tmp_path: Path) -> None:
    remember(tmp_path, 3, 3.0)
    late = Memory(tmp_path, 5)
    late.put("moon.previous", [np.full(3, 5.0, np.float32)])
    for number in (6, 7, 8):
        remember(tmp_path, number, float(number))
    late.close()
    assert recall(tmp_path, 9) == 8.0
    assert recall(tmp_path, 8) == 7.0


def test_keys_that_nobody_touches_are_carried_on(tmp_path: Path) -> None:
    remember(tmp_path, 1, 1.0)
    memory = Memory(tmp_path, 2)
    memory.put("other.thing", [np.arange(3)])
    memory.close()
    memory = Memory(tmp_path, 3)
    assert memory.get("moon.previous") is not None
    memory.close()
    assert Memory(tmp_path, 4).get("moon.previous") is not None
    assert Memory(tmp_path, 4).get("other.thing") is not None


def test_what_is_put_is_a_copy(tmp_path: Path) -> None:
    live = np.zeros(3)
    memory = Memory(tmp_path, 1)
    memory.put("a.b", [live])
    live += 1
    memory.close()
    stored = Memory(tmp_path, 2).get("a.b")
    assert stored is not None
    assert stored[0].sum() == 0


def test_a_warm_start_reads_the_other_run_until_it_has_its_own(tmp_path: Path) -> None:
    parent, own = tmp_path / "parent", tmp_path / "own"
    for number in range(1, 8):
        remember(parent, number, float(number), keep_all=True)
    memory = Memory(own, 6, parent=parent, parent_round=5)
    assert float(memory.get("moon.previous")[0][0]) == 5.0  # type: ignore[index]
    memory.close()
    assert float(Memory(own, 7, parent=parent, parent_round=5).get("moon.previous")[0][0]) == 5.0  # type: ignore[index]
    assert len(versions(parent)) == 7


def test_local_models_come_in_partition_order(tmp_path: Path) -> None:
    for partition, examples in ((1, 10), (0, 30)):
        memory = Memory(tmp_path / f"client-{partition:05d}", 2)
        memory.put(LOCAL_MODEL, [np.full(2, partition, np.float32)])
        memory.put(LOCAL_EXAMPLES, [np.array([examples])])
        memory.close()
    found = local_models(tmp_path, 2)
    assert [examples for examples, _ in found] == [30, 10]
    assert local_models(tmp_path, 1) == []


def test_a_memory_is_lost_if_a_counted_round_left_nothing(tmp_path: Path) -> None:
    """A client that never took part has nothing to lose; `since` is its last round that counted."""
    assert not Memory(tmp_path / "new", 5, since=0).lost
    assert Memory(tmp_path / "gone", 5, since=3).lost
    remember(tmp_path / "kept", 3, 1.0)
    assert not Memory(tmp_path / "kept", 5, since=3).lost


def test_a_round_without_anything_to_remember_leaves_the_last_file_alone(tmp_path: Path) -> None:
    remember(tmp_path, 1, 1.0)
    Memory(tmp_path, 2).close()
    assert [path.name for path in versions(tmp_path)] == ["round-00001.safetensors"]
    assert recall(tmp_path, 3) == 1.0


def test_a_damaged_memory_gives_way_to_the_version_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2, 3):
        remember(tmp_path, number, float(number))
    newest = versions(tmp_path)[-1]
    damaged = bytearray(newest.read_bytes())
    damaged[-1] ^= 1
    newest.write_bytes(damaged)
    assert recall(tmp_path, 4) == 2.0
    assert "a client forgets a round" in caplog.text
    assert Memory(tmp_path, 4).age == 2


def test_a_memory_is_private(tmp_path: Path) -> None:
    remember(tmp_path / "client", 1, 1.0)
    (file,) = versions(tmp_path / "client")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
