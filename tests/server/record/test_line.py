"""The line of a round, made by hand: where each figure goes, and the means over the clients."""

import pytest

from fedmirage.common.errors import WireError
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.metrics import DRIFT, ON_TEST, TEST_SHARD
from fedmirage.server.messages.plain import FitOutcome
from fedmirage.server.record.line import make_round_line


def test_figures_go_to_their_places() -> None:
    metrics = {
        "term.task": 0.5,
        "term.control": 0.25,
        "steps": 3.0,
        "seconds.generation": 1.0,
        "scaffold.drift": 2.0,
        f"{TEST_SHARD}accuracy": 0.75,
    }
    outcome = FitOutcome(None, metrics, bytes_up=7, bytes_down=5)
    evaluated = {"accuracy": 0.9, "loss": 0.1, "evaluation": {"macro_f1": 0.8}}
    config = configure({"methods": "scaffold", "lr": 0.8, "schedule": "exponential(factor=0.5)"})
    line = make_round_line(4, outcome, evaluated, config, {})
    assert line == {
        "kind": "round",
        "round": 4,
        "lr": 0.1,
        "accuracy": 0.9,
        "loss": 0.1,
        "train": {"task": 0.5, "control": 0.25},
        "clients": [],
        "refused": [],
        "methods": {"scaffold.drift": 2.0},
        "bytes_up": 7,
        "bytes_down": 5,
        "evaluation": {f"{TEST_SHARD}accuracy": 0.75, "macro_f1": 0.8},
    }


def test_validation_counts_as_sent() -> None:
    outcome = FitOutcome(None, {}, bytes_down=5)
    evaluated = {"validation": {"loss": 1.0, "bytes_down": 30}}
    line = make_round_line(1, outcome, evaluated, configure({"validation": 0.1}), {})
    assert line["bytes_down"] == 35
    assert line["accuracy"] is None


def test_a_figure_of_no_method_is_refused() -> None:
    outcome = FitOutcome(None, {"scaffold.drift": 1.0})
    with pytest.raises(WireError, match=r"'scaffold\.drift' belongs to no method of this run"):
        make_round_line(1, outcome, {}, configure({"methods": "fedprox"}), {})


def test_local_models_by_examples_and_by_clients() -> None:
    """Accuracies 0.5 of 10 examples and 1.0 of 30: 35 / 40 = 0.875 by examples, 0.75 by clients.

    A client that did not train counts in neither, but the samples of all rounds are added up.
    """
    clients = [
        {"partition": 0, "examples": 10, ON_TEST: 0.5, f"{TEST_SHARD}accuracy": 0.2, "samples": 4},
        {"partition": 1, "examples": 30, ON_TEST: 1.0, f"{TEST_SHARD}accuracy": 0.6, "samples": 6},
        {"partition": 2, "examples": 0, ON_TEST: 0.0, f"{TEST_SHARD}accuracy": 0.0, "samples": 0},
    ]
    progress = {"samples": 100}
    config = configure({"diagnostics": True, "local_evaluation": True})
    line = make_round_line(1, FitOutcome(None, {DRIFT: 1.5}, clients), {}, config, progress)
    assert line["diagnostics"] == {
        "drift": 1.5,
        "local_model.on_test.by_examples.accuracy": 0.875,
        "local_model.on_test.by_clients.accuracy": 0.75,
        "samples": 110,
    }
    assert progress == {"samples": 110}
    assert line["evaluation"] == {
        "local_model.on_test_shard.worst.accuracy": 0.2,
        "local_model.on_test_shard.best.accuracy": 0.6,
        "local_model.on_test_shard.std.accuracy": pytest.approx(0.2),
    }
