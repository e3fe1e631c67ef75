"""What both sides of a hand-out agree on."""

import numpy as np
import pytest

from fedmirage.common.wire.handout import digest, is_recipe, is_version


def test_a_digest_knows_types_and_shapes() -> None:
    zeros = np.zeros((2, 3), np.uint8)
    different = [[zeros], [zeros.reshape(3, 2)], [zeros.view(np.int8)], [zeros, zeros], [zeros + 1]]
    assert len({digest(arrays).tobytes() for arrays in different}) == 5
    assert digest([zeros]).shape == (32,)
    assert is_version([zeros], digest([zeros]))
    assert not is_version([zeros + 1], digest([zeros]))


def test_a_digest_is_of_values_and_not_of_how_they_lie_in_memory() -> None:
    square = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert is_version([np.asfortranarray(square)], digest([square]))


@pytest.mark.parametrize(
    ("arrays", "recipe"),
    [
        ([np.array([7], np.int64)], True),
        ([np.array([7, 8], np.int64)], True),
        ([np.array([7], np.int32)], False),
        ([np.zeros((1, 1), np.int64)], False),
        ([np.array([7], np.int64)] * 2, False),
        ([], False),
    ],
)
def test_a_recipe_is_one_vector_of_whole_numbers(arrays: list[np.ndarray], recipe: bool) -> None:
    assert is_recipe(arrays) == recipe
