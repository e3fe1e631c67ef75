"""My method: the tests that every method must pass, and one that works a round out by hand."""

from pathlib import Path

from fedmirage.testing import BASE, MethodTests, lines, run_in_process


class TestMyMethod(MethodTests):
    """What every method must pass."""

    method = "my-method"
    like_fedavg = "my-method(strength=0)"


def test_the_term_of_the_first_round_is_that_of_equal_shares(tmp_path: Path) -> None:
    """Before anything is counted, all classes are alike, and a new network predicts nearly that."""
    run_in_process(tmp_path, **{**BASE, "rounds": 1}, methods="my-method(strength=1)")
    (line,) = lines(tmp_path)
    assert 0 < line["train"]["my-method"] < 1
