"""Receiving a set: from the message, from memory, from its recipe, or refused with a sentence."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.client.handout import receive
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import Memory
from fedmirage.common.wire.handout import digest
from fedmirage.common.wire.payload import Array, Arrays

KEY = "test.set"
SET = [np.arange(6, dtype=np.uint8), np.array([0.5], np.float32)]
OTHER = [np.arange(3, dtype=np.uint8)]


def get(folder: Path, number: int, section: Arrays, **more: object) -> Arrays:
    """A round of a client that remembers what it received."""
    memory = Memory(folder, number)
    arrays = receive(section, memory, KEY, "the test set", **more)  # type: ignore[arg-type]
    memory.close()
    return arrays


def same(one: Arrays, other: Arrays) -> bool:
    return [array.tobytes() for array in one] == [array.tobytes() for array in other]


def test_arrays_that_came_are_found_again_by_their_digest(tmp_path: Path) -> None:
    assert same(get(tmp_path, 1, [digest(SET), *SET]), SET)
    assert same(get(tmp_path, 2, [digest(SET)]), SET)
    assert same(get(tmp_path, 5, [digest(SET)]), SET)


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    get(tmp_path, 1, [digest(SET), *SET])
    assert same(get(tmp_path, 2, [digest(OTHER), *OTHER]), OTHER)
    assert same(get(tmp_path, 3, [digest(OTHER)]), OTHER)
    with pytest.raises(FedmirageError, match="does not hold the test set any more"):
        get(tmp_path, 4, [digest(SET)])


def test_a_round_whose_reply_did_not_count_is_forgotten_with_its_set(tmp_path: Path) -> None:
    """The client received OTHER in round 2, but the server counts only its reply of round 1."""
    get(tmp_path, 1, [digest(SET), *SET])
    get(tmp_path, 2, [digest(OTHER), *OTHER])
    memory = Memory(tmp_path, 3, since=1)
    assert same(receive([digest(SET)], memory, KEY, "the test set"), SET)


def test_a_recipe_is_followed_and_what_it_gives_is_remembered(tmp_path: Path) -> None:
    calls = []

    def make(recipe: Array) -> Arrays:
        calls.append(recipe.tolist())
        return SET

    section = [digest(SET), np.array([7, 8], np.int64)]
    for number in (1, 2):
        assert same(get(tmp_path, number, section, make=make), SET)
    assert calls == [[7, 8]]


def test_a_set_that_looks_like_a_recipe_is_known_by_its_digest(tmp_path: Path) -> None:
    numbers = [np.array([1, 2], np.int64)]
    found = get(tmp_path, 1, [digest(numbers), *numbers], make=lambda recipe: SET)
    assert same(found, numbers)


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (
            [digest(SET)],
            "does not hold the test set any more; it is sent when the node is next asked",
        ),
        ([digest(SET), *OTHER], "came to this node is not the one that the server names"),
        ([digest(SET), np.array([7], np.int64)], "that this node made is not the server's"),
    ],
)
def test_what_cannot_be_had_is_a_sentence_and_not_remembered(
    tmp_path: Path, section: Arrays, reason: str
) -> None:
    memory = Memory(tmp_path, 1)
    with pytest.raises(FedmirageError, match=reason):
        receive(section, memory, KEY, "the test set", lambda recipe: OTHER)
    assert memory.get(KEY) is None


def test_without_a_maker_a_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="SHA-256 differs"):
        receive([digest(SET), np.array([7], np.int64)], Memory(tmp_path, 1), KEY, "the test set")
