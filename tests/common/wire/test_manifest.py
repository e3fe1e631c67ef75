"""Arrays by name: parts, order, and what is refused."""

import numpy as np
import pytest

from fedmirage.common.errors import WireError
from fedmirage.common.models.factory import build
from fedmirage.common.wire.manifest import Manifest, to_arrays

MODEL = build("lenet-bn", (1, 28, 28), 3, seed=1)
WHOLE, ARRAYS = Manifest.of(MODEL), to_arrays(MODEL)


def test_parts_are_the_first_words_of_names() -> None:
    head, body = WHOLE.only(["classifier"]), WHOLE.only(["features"])
    assert {*head.names, *body.names} == set(WHOLE.names)
    assert all(name.startswith("classifier.") for name in head.names)
    assert WHOLE.only([]).names == ()
    assert WHOLE.size == sum(array.size for array in ARRAYS)


def test_pick_and_place_are_inverse() -> None:
    head = WHOLE.only(["classifier"])
    picked = head.pick(ARRAYS, WHOLE)
    assert [array.shape for array in picked] == [entry.shape for entry in head]
    blank = [np.zeros_like(array) for array in ARRAYS]
    placed = WHOLE.name(head.place(picked, blank, WHOLE))
    for name, array in WHOLE.name(ARRAYS).items():
        assert np.array_equal(placed[name], array if name in head.names else np.zeros_like(array))
    assert list(placed) == list(WHOLE.names)


def test_weights_and_statistics_are_all_there_is() -> None:
    assert sorted((*WHOLE.weights.names, *WHOLE.statistics.names)) == sorted(WHOLE.names)
    assert all("running" in name for name in WHOLE.statistics.names)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: arrays[:-1], "both sides need the same model"),
        (lambda arrays: [arrays[0].astype(np.float64), *arrays[1:]], "cast it before sending"),
        (lambda arrays: [arrays[0][:1], *arrays[1:]], "has shape"),
        (lambda arrays: [arrays[0] * np.nan, *arrays[1:]], "not finite"),
        (lambda arrays: [arrays[0].tolist(), *arrays[1:]], "send numpy arrays"),
    ],
)
def test_arrays_that_are_not_the_model_s_are_refused(change: object, words: str) -> None:
    with pytest.raises(WireError, match=words):
        WHOLE.check(change(list(ARRAYS)))  # type: ignore[operator]
    WHOLE.check(ARRAYS)


def test_unknown_arrays_are_called_by_their_positions() -> None:
    manifest = Manifest.anonymous(ARRAYS)
    assert manifest.names[:2] == ("0", "1")
    assert len(manifest.weights) == len(ARRAYS)
    manifest.check(ARRAYS)
