"""Losses and metrics against brute force and scikit-learn; evaluation leaves the model as it
came."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss, precision_score, recall_score
from torch import Tensor, nn

from fedmirage.common.data.batches import Resident, normalise
from fedmirage.common.errors import DataError
from fedmirage.common.learning.task import TASKS, evaluate
from fedmirage.common.models.factory import build

SINGLE, MULTI = TASKS["single-label"], TASKS["multi-label"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def measured(name: str, logits: Tensor, labels: Tensor, sizes: tuple[int, ...]) -> dict[str, float]:
    meter = TASKS[name].meter()
    for one, other in zip(logits.split(sizes), labels.split(sizes), strict=True):
        meter.add(one, other)
    return meter.result()


def multi_label_sample(samples: int = 50, classes: int = 6) -> tuple[Tensor, Tensor]:
    """With a class that is never true, one that is never predicted, samples without labels, and
    samples without predictions."""
    logits = torch.randn(samples, classes, generator=generator(1))
    labels = (torch.rand(samples, classes, generator=generator(2)) < 0.4).to(torch.uint8)
    labels[:, 0] = 0
    logits[:, 1] = -1
    labels[:3] = 0
    logits[2:5] = -0.5
    return logits, labels


def test_single_label_loss_and_metrics() -> None:
    logits, labels = (
        3 * torch.randn(40, 5, generator=generator()),
        torch.randint(5, (40,), generator=generator(1)),
    )
    result = measured("single-label", logits, labels, (16, 16, 8))
    assert result == pytest.approx(
        {
            "accuracy": accuracy_score(labels, logits.argmax(1)),
            "loss": log_loss(labels, logits.double().softmax(1).numpy(), labels=range(5)),
        },
        rel=1e-6,
    )
    assert SINGLE.loss(logits, labels).item() == pytest.approx(result["loss"], rel=1e-6)
    assert set(result) == {"accuracy", "loss"}


def test_multi_label_metrics_equal_scikit_learn() -> None:
    logits, labels = multi_label_sample()
    result = measured("multi-label", logits, labels, (20, 20, 10))
    predicted = (logits > 0).numpy()
    expected = {
        "accuracy": float((predicted == labels.numpy()).mean()),
        "loss": brute_force_loss(logits, labels),
    }
    for prefix, average in (("C", "macro"), ("O", "samples")):
        for letter, score in (("P", precision_score), ("R", recall_score), ("F1", f1_score)):
            expected[f"{prefix}-{letter}"] = score(
                labels, predicted, average=average, zero_division=0
            )
    expected["micro-F1"] = f1_score(labels, predicted, average="micro", zero_division=0)
    assert result == pytest.approx(expected, rel=1e-6)


def test_multi_label_metrics_equal_brute_force() -> None:
    logits, labels = multi_label_sample(9, 4)
    result = measured("multi-label", logits, labels, (4, 5))
    predicted, true = (logits > 0).numpy(), labels.numpy().astype(bool)
    for prefix, axis in (("C", 1), ("O", 0)):
        rows = [
            scores(p, t)
            for p, t in zip(
                np.moveaxis(predicted, axis, 0), np.moveaxis(true, axis, 0), strict=True
            )
        ]
        assert [result[f"{prefix}-{letter}"] for letter in ("P", "R", "F1")] == pytest.approx(
            np.mean(rows, axis=0).tolist()
        )


def scores(
    predicted: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]
) -> tuple[float, float, float]:
    """Precision, recall, F1 of one row of decisions."""
    hits = sum(bool(p and t) for p, t in zip(predicted, true, strict=True))
    precision = hits / predicted.sum() if predicted.any() else 0.0
    recall = hits / true.sum() if true.any() else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def brute_force_loss(logits: Tensor, labels: Tensor) -> float:
    probabilities = 1 / (1 + np.exp(-logits.double().numpy()))
    truth = labels.numpy()
    return float(-(truth * np.log(probabilities) + (1 - truth) * np.log(1 - probabilities)).mean())


def test_multi_label_loss_is_the_mean_over_batch_and_classes_and_takes_bytes() -> None:
    logits, labels = multi_label_sample()
    logits.requires_grad_()
    loss = MULTI.loss(logits, labels)
    assert loss.item() == pytest.approx(brute_force_loss(logits.detach(), labels), rel=1e-6)
    loss.backward()
    assert MULTI.loss(logits, labels.float()).item() == loss.item()


@pytest.mark.parametrize("name", TASKS)
def test_perfect_answers_score_one_and_batches_do_not_matter(name: str) -> None:
    truth = torch.eye(4).repeat(3, 1)
    labels = truth.argmax(1) if name == "single-label" else truth
    result = measured(name, 40 * truth - 20, labels, (12,))
    assert all(value == pytest.approx(1.0) for key, value in result.items() if key != "loss")
    assert result == pytest.approx(measured(name, 40 * truth - 20, labels, (5, 5, 2)))


@pytest.mark.parametrize("name", TASKS)
def test_an_empty_set_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="no batch"):
        TASKS[name].meter().result()
    with pytest.raises(DataError, match="no samples"):
        evaluate(nn.Identity(), [], TASKS[name])


def test_evaluation_equals_one_pass_in_eval_mode() -> None:
    model = build("lenet-bn", (3, 28, 28), 4, seed=0)
    images = torch.randint(256, (30, 3, 28, 28), dtype=torch.uint8, generator=generator())
    labels = torch.randint(4, (30,), generator=generator(1))
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.features[1].eval()
    result = evaluate(model, Resident(images, labels).in_order(mean, std, batch_size=7), SINGLE)
    assert model.training
    assert not model.features[1].training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    logits = model.eval()(normalise(images, mean, std)).detach()
    assert result["accuracy"] == pytest.approx((logits.argmax(1) == labels).double().mean().item())
    assert result["loss"] == pytest.approx(
        nn.functional.cross_entropy(logits, labels).item(), rel=1e-5
    )


def test_modes_are_restored_after_a_failure() -> None:
    model = build("mlp", (1, 8, 8), 4)
    with pytest.raises(RuntimeError):
        evaluate(model, [(torch.zeros(2, 1, 9, 9), torch.zeros(2).long())], SINGLE)
    assert all(module.training for module in model.modules())


def test_classes_restricts_a_widened_head_to_the_real_classes() -> None:
    class Echo(nn.Module):
        """Its logits are the bytes that it is shown."""

        def forward(self, images: Tensor) -> Tensor:
            return 255 * images.flatten(1)

    images = torch.tensor([[1, 5, 9], [7, 2, 8]], dtype=torch.uint8).view(2, 3, 1, 1)
    labels = torch.tensor([1, 0])
    batch = (images / 255, labels)
    whole = evaluate(Echo(), [batch], SINGLE)
    real = evaluate(Echo(), [batch], SINGLE, classes=2)
    assert (whole["accuracy"], real["accuracy"]) == (0.0, 1.0)
    assert real["accuracy_all_outputs"] == 0.0
    assert "accuracy_all_outputs" not in whole
    assert real["loss"] == pytest.approx(
        (np.log1p(np.exp(-4)) + np.log1p(np.exp(-5))) / 2, rel=1e-5
    )
