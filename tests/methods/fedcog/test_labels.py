"""FedCOG's labels and weights: the paper's example, the card's examples, nothing lost, nothing
divided by zero."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedmirage.client.methods.fedcog.labels import allocate, balancing_weights, complement
from tests.support.fedcog import another, local_round, made


def test_the_example_of_the_paper() -> None:
    """A.1.1: d = [500, 0, 400, 200, 400] lacks [0, 500, 100, 300, 100]; ten images are then 0, 5,
    1, 3 and 1."""
    counts = np.array([500, 0, 400, 200, 400])
    assert complement(counts).tolist() == [0, 500, 100, 300, 100]
    assert allocate(10, complement(counts)).tolist() == [0, 5, 1, 3, 1]


def test_largest_remainder_loses_no_sample() -> None:
    """256 over eight lacking classes of ten are 32 each. Over shares 1, 1, 1: 86, 85, 85, the rest
    to the smaller number.

    With 99 lacking classes rounding down would lose 58 samples: floor(256 / 99) = 2 each are 198.
    """
    two_of_ten = np.array([3000, 3000, *[0] * 8])
    assert allocate(256, complement(two_of_ten)).tolist() == [0, 0, *[32] * 8]
    assert allocate(256, np.array([1, 1, 1])).tolist() == [86, 85, 85]
    assert allocate(10, np.array([5, 3, 1])).tolist() == [6, 3, 1]  # 5.56, 3.33, 1.11
    hundred = complement(np.array([500, *[0] * 99]))
    assert allocate(256, hundred).sum() == 256
    assert 256 * hundred[1] // hundred.sum() * 99 == 198
    # fewer samples than missing classes
    assert allocate(3, hundred).tolist() == [
        0,
        1,
        1,
        1,
        *[0] * 96,
    ]
    assert allocate(0, hundred).sum() == 0


def test_counts_may_be_large() -> None:
    assert allocate(1024, np.array([10**9, 0, 10**9], np.int64)).tolist() == [512, 0, 512]


@pytest.mark.parametrize("counts", [[7, 7, 7], [0, 0, 0]])
def test_a_balanced_client_lacks_nothing(counts: list[int]) -> None:
    assert not complement(np.array(counts)).any()
    assert allocate(9, complement(np.array(counts))).tolist() == [3, 3, 3]
    assert balancing_weights(np.array(counts)) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("counts", "weights"),
    [
        ([3000, 3000, *[0] * 8], (0.2, 0.8)),
        ([600, *[0] * 9], (0.1, 0.9)),
        ([500, 0, 400, 200, 400], (0.6, 0.4)),
    ],
    ids=["two equal classes of ten", "one class of ten", "the paper's five classes"],
)
def test_the_automatic_weights(counts: list[int], weights: tuple[float, float]) -> None:
    """w_real = n / (C max d): 6000 / 30000, 600 / 6000, 1500 / 2500."""
    assert balancing_weights(np.array(counts)) == pytest.approx(weights)


@pytest.mark.parametrize("rule", ["complement", "uniform"])
def test_labels_of_a_one_class_client(tmp_path: Path, rule: str) -> None:
    virtual = made(local_round(tmp_path, [2] * 5), labels=rule)
    expected = [4, 4, 0, 4] if rule == "complement" else [3, 3, 3, 3]
    assert torch.bincount(virtual.labels, minlength=4).tolist() == expected


def test_targets_with_several_labels_have_one_that_is_there(tmp_path: Path) -> None:
    """Label 1 is rare and label 3 never there: d = [3, 1, 3, 0], the complement [0, 2, 0, 3]."""
    labels = torch.tensor([[1, 0, 1, 0], [1, 1, 1, 0], [1, 0, 1, 0]]).float()
    virtual = made(local_round(tmp_path, labels), partner=another(), samples=10)
    assert virtual.labels.sum(0).tolist() == [0, 4, 0, 6]
    assert virtual.labels.sum(1).tolist() == [1] * 10
    assert virtual.logits.shape == (10, 4)
