"""FedCOG: the limits in which it is FedAvg, its weights and labels by hand, and the cases of its method card."""

from pathlib import Path

import pytest

from tests.inprocess import run_in_process
from tests.rounds.test_run import SMALL, assert_same_bits, lines, weights

TINY = "fedcog(start=1, samples=6, steps=2)"


@pytest.mark.parametrize(
    "line",
    [
        "fedcog",  # starts after the last round
        "fedcog(start=1, kd_weight='fixed', lambda_kd=0)",
        "fedcog(start=1, samples=0)",
        "fedcog(start=1, source='none', kd_weight='fixed')",
    ],
)
@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
def test_limits_in_which_it_is_fedavg_bit_for_bit(tmp_path: Path, line: str, model: str) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, model=model)
    run_in_process(tmp_path / "fedcog", **SMALL, model=model, methods=line)
    assert_same_bits(tmp_path / "fedavg", tmp_path / "fedcog")


def test_before_its_start_and_after_its_stop_it_is_fedavg(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **SMALL, keep_models="all")
    run_in_process(tmp_path / "fedcog", **SMALL, methods="fedcog(start=2, stop=2, samples=6, steps=2)")
    plain, ours = lines(tmp_path / "fedavg"), lines(tmp_path / "fedcog")
    assert ours[0]["loss"] == plain[0]["loss"]
    assert ours[1]["loss"] != plain[1]["loss"]
    assert [("distillation" in line["train"]) for line in ours] == [False, True, False]
    assert weights(tmp_path / "fedavg")[0].tobytes() != weights(tmp_path / "fedcog")[0].tobytes()
