"""Per-class figures against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, f1_score, recall_score, roc_auc_score
from torch import Tensor

from fedmirage.common.learning.detail import Detail, select_for_round, select_for_summary

NAMES = ("bag", "boot", "coat", "dress", "shirt")


def counted(detail: Detail, logits: Tensor, labels: Tensor) -> Detail:
    for part in (slice(0, 16), slice(16, 20), slice(20, None)):
        detail.add(logits[part], labels[part])
    return detail


def sample(classes: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes - 1, (40,), generator=generator)  # the last one never occurs
    return torch.randn(40, classes, generator=generator), labels


def test_single_label_figures_equal_scikit_learn() -> None:
    logits, labels = sample()
    found = counted(Detail(NAMES, "single-label"), logits, labels).result()
    answers, there = logits.argmax(1), range(4)
    recalls = recall_score(labels, answers, average=None, labels=there)
    assert found["confusion"] == confusion_matrix(labels, answers, labels=range(5)).tolist()
    assert found["recall"] == [*(pytest.approx(value, abs=1e-6) for value in recalls), None]
    assert found["macro_f1"] == pytest.approx(
        f1_score(labels, answers, average="macro", labels=there)
    )
    assert found["balanced_accuracy"] == pytest.approx(recalls.mean())
    probabilities = logits.double().softmax(1)
    areas = [roc_auc_score(labels == number, probabilities[:, number]) for number in there]
    assert found["auc"] == pytest.approx(np.mean(areas))  # over batches of all sizes
    worst = int(np.argmin(recalls))
    assert (found["worst_class"], found["worst_recall"]) == (NAMES[worst], recalls[worst])


def test_by_hand_two_classes_of_which_one_is_never_answered() -> None:
    """Three of a, one of b, always answered a: recall 1 and 0, F1 6/7 and 0; all scores tie."""
    detail = Detail(("a", "b"), "single-label")
    detail.add(torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
    assert detail.result() == {
        "recall": [1.0, 0.0],
        "worst_recall": 0.0,
        "worst_class": "b",
        "balanced_accuracy": 0.5,
        "macro_f1": pytest.approx(3 / 7),
        "auc": 0.5,
        "confusion": [[3, 0], [1, 0]],
    }


def test_a_set_of_one_class_has_no_roc_area() -> None:
    detail = Detail(("a", "b"), "single-label")
    detail.add(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    found = detail.result()
    assert "auc" not in found
    assert found["balanced_accuracy"] == 0.5


def test_several_labels_have_recall_by_class() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(40, 3, generator=generator)
    labels = (torch.rand(40, 3, generator=generator) < 0.5).float()
    labels[:, 1] = 0
    found = counted(Detail(NAMES[:3], "multi-label"), logits, labels).result()
    expected = recall_score(labels, logits > 0, average=None, zero_division=0)
    assert found["recall"] == [
        pytest.approx(expected[0], abs=1e-6),
        None,
        pytest.approx(expected[2], abs=1e-6),
    ]
    areas = [roc_auc_score(labels[:, number], logits[:, number]) for number in (0, 2)]
    assert found["auc"] == pytest.approx(np.mean(areas))
    assert not {"confusion", "balanced_accuracy", "macro_f1"} & set(found)


@pytest.mark.parametrize("task", ["single-label", "multi-label"])
def test_domains_have_their_own_accuracy(task: str) -> None:
    logits, numbers = sample()
    labels = numbers if task == "single-label" else torch.nn.functional.one_hot(numbers, 5).float()
    domains = torch.arange(40) % 3
    detail = Detail(NAMES, task, domains, ("mnist", "usps", "svhn", "empty"))  # type: ignore[arg-type]
    result = counted(detail, logits, labels).result()
    found = result["domains"]
    assert list(found) == ["mnist", "usps", "svhn"]
    assert result["accuracy_domain_mean"] == pytest.approx(sum(found.values()) / 3)
    for number, accuracy in enumerate(found.values()):
        mine = domains == number
        right = (
            logits.argmax(1) == labels if task == "single-label" else (logits > 0) == (labels > 0)
        )
        assert accuracy == pytest.approx(right[mine].double().mean().item())


def test_a_rounds_line_stays_short_and_the_summary_has_the_rest() -> None:
    few = {"macro_f1": 0.5, "recall": [0.5] * 20, "confusion": [[1] * 20] * 20}
    assert select_for_round(few) == {"macro_f1": 0.5, "recall": [0.5] * 20}
    assert select_for_summary(few) == {"recall": [0.5] * 20, "confusion": [[1] * 20] * 20}
    many = {"macro_f1": 0.5, "recall": [0.5] * 101, "confusion": [[1] * 101] * 101}
    assert select_for_round(many) == {"macro_f1": 0.5}
    assert select_for_summary(many) == {"recall": [0.5] * 101}
    assert select_for_round({}) == select_for_summary({}) == {}
