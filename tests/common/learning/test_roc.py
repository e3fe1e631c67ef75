"""The area under the ROC curve against scikit-learn and by hand."""

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from fedmirage.common.learning.roc import roc_area


def sample(classes: int, seed: int, count: int = 300) -> tuple[Tensor, Tensor]:
    """Make logits on a coarse grid, so that there are many ties, and labels that they hint at."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=generator)
    logits = torch.randn(count, classes, generator=generator)
    logits[torch.arange(count), labels] += 0.5
    return (2 * logits).round() / 2, labels


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_equal_scikit_learn(seed: int) -> None:
    logits, labels = sample(2, seed)
    difference = logits[:, 1] - logits[:, 0]
    assert len(difference.unique()) < 50
    assert roc_area(logits, labels) == pytest.approx(roc_auc_score(labels, difference), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [3, 7])
def test_more_classes_equal_scikit_learn(classes: int, seed: int) -> None:
    logits, labels = sample(classes, seed)
    logits[::3] = logits[0]  # whole rows that tie
    probabilities = logits.double().softmax(1)
    expected = roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
    assert roc_area(logits, labels) == pytest.approx(expected, abs=1e-12)


def test_several_labels_per_sample_equal_scikit_learn() -> None:
    logits, _ = sample(4, 0)
    labels = (torch.rand(300, 4, generator=torch.Generator().manual_seed(1)) < 0.3).float()
    expected = roc_auc_score(labels, logits, average="macro")
    assert roc_area(logits, labels) == pytest.approx(expected, abs=1e-12)


def test_by_hand_with_a_tie() -> None:
    """Positives score 1 and 3, negatives 0, 1 and 2.

    1 beats 0 and ties with 1, 3 beats all: 4.5 of 6 pairs.
    """
    logits = torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    assert roc_area(logits, torch.tensor([1, 1, 0, 0, 0])) == 4.5 / 6
    assert roc_area(-logits, torch.tensor([1, 1, 0, 0, 0])) == 1.5 / 6
    assert roc_area(0 * logits, torch.tensor([1, 1, 0, 0, 0])) == 0.5


def test_a_class_that_never_occurs_does_not_count() -> None:
    """By hand: 0 against 1, both told apart without error; class 2 has no positive."""
    logits = torch.tensor([[3.0, 0.0, 9.0], [2.0, 0.0, 1.0], [0.0, 3.0, 2.0], [0.0, 2.0, 2.0]])
    labels = torch.tensor([0, 0, 1, 1])
    probabilities = logits.double().softmax(1)
    areas = [roc_auc_score(labels == number, probabilities[:, number]) for number in (0, 1)]
    assert roc_area(logits, labels) == pytest.approx(sum(areas) / 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_alone_has_no_area(classes: int) -> None:
    logits, _ = sample(classes, 0, 5)
    assert roc_area(logits, torch.ones(5, dtype=torch.int64)) is None
    assert roc_area(logits, torch.ones(5, classes)) is None


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_not_a_number_tells_nothing_apart(classes: int) -> None:
    _, labels = sample(classes, 0, 30)
    assert roc_area(torch.full((30, classes), float("nan")), labels) == 0.5
    assert roc_area(torch.full((30, classes), float("inf")), labels) == 0.5


def test_large_logits_do_not_saturate_for_two_classes() -> None:
    """The probabilities would all be 1, and every pair would tie."""
    logits = torch.tensor([[0.0, 900.0], [0.0, 800.0]])
    assert roc_area(logits, torch.tensor([1, 0])) == 1.0
