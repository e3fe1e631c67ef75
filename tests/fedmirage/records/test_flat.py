"""Nested lines become flat values with names."""

from pathlib import Path

from fedmirage.records.flat import flatten_round, round_metrics
from tests.support.followed import add_rounds, begin


def test_a_round_becomes_flat_without_its_clients(tmp_path: Path) -> None:
    results = begin(tmp_path)
    add_rounds(results, 1)
    (line,) = results.lines()
    flat = flatten_round(line)
    assert flat == {
        "round": 1,
        "accuracy": 0.1,
        "loss": None,
        "evaluation.recall.0": 0.5,
        "evaluation.recall.1": None,
        "evaluation.worst_class": "b",
        "train.task": 0.75,
        "fedexp.step": 2.0,
        "bytes_up": 100,
        "bytes_down": 200,
        "seconds.round": 1.0,
    }
    left_out = {"round", "loss", "evaluation.recall.1", "evaluation.worst_class"}
    assert set(round_metrics(line)) == set(flat) - left_out
