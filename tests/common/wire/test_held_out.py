"""The two means over what the sites hold out, one by one and as sums."""

import numpy as np
import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.common.wire.held_out import (
    EXAMPLES,
    LARGEST,
    PREFIX,
    means_of_reports,
    means_of_sums,
    names_of,
    report,
    summed_names,
    to_sums,
)

HELD = [30, 1, 0, 200]
SCORES = [{"accuracy": 0.5, "loss": 2.0}, {"accuracy": 1.0, "loss": 0.1}, {}]
SCORES.append({"accuracy": 0.25, "loss": 3.5})
REPORTS = [report(held, scores) for held, scores in zip(HELD, SCORES, strict=True)]


def test_both_means_against_numpy() -> None:
    found = means_of_reports([{"partition": at, **one} for at, one in enumerate(REPORTS)])
    for name in ("accuracy", "loss"):
        values = [scores[name] for scores in SCORES if scores]
        weights = [held for held in HELD if held]
        assert found["by_examples"][name] == pytest.approx(np.average(values, weights=weights))
        assert found["by_sites"][name] == pytest.approx(np.mean(values))
    counted = {name: found[name] for name in ("holding", "examples", "without")}
    assert counted == {"holding": 3, "examples": 231, "without": 1}
    assert found["without_partitions"] == [2]


def test_sums_give_the_same_means() -> None:
    names = summed_names(["steps", *names_of(["accuracy", "loss"])])
    products = [to_sums({"steps": 3, **one}, 1000) for one in REPORTS]
    assert all(set(one) <= set(names) for one in products)
    means = {name: np.mean([one.get(name, 0.0) for one in products]) for name in names}
    found, wanted = (
        means_of_sums(means, len(HELD), 1000),
        means_of_reports([{"partition": 0, **one} for one in REPORTS]),
    )
    del wanted["without_partitions"]
    for kind in ("by_examples", "by_sites"):
        assert found.pop(kind) == pytest.approx(wanted.pop(kind))
    assert found == wanted


def test_nobody_holds_out_anything() -> None:
    found = means_of_reports([{"partition": 1, **report(0, {})}])
    assert found["by_examples"] == found["by_sites"] == {}
    sums = to_sums(report(0, {}), 10)
    found = means_of_sums({**dict.fromkeys(summed_names(names_of(["loss"])), 0.0), **sums}, 3, 10)
    assert found["by_examples"] == found["by_sites"] == {}
    assert found["without"] == 3


def test_a_spoilt_model_has_a_large_loss_that_can_be_averaged() -> None:
    for value in (float("inf"), float("nan"), 1e30):
        assert report(3, {"loss": value}) == {EXAMPLES: 3, f"{PREFIX}loss": LARGEST}


def test_more_samples_than_a_sum_can_weigh_are_refused() -> None:
    with pytest.raises(FedmirageError, match="raise max_examples"):
        to_sums(report(11, {"loss": 1.0}), 10)


def test_other_metrics_keep_their_names_and_order() -> None:
    assert summed_names(["term.task", "steps"]) == ["term.task", "steps"]
    assert to_sums({"steps": 2.0}, 10) == {"steps": 2.0}
