"""The test kit for methods of your own; it needs pytest.

from fedmirage.testing import MethodTests

class TestPrior(MethodTests):
    method = "prior"
    like_fedavg = "prior(strength=0)"
"""

from pathlib import Path
from typing import ClassVar

import pytest

pytest.register_assert_rewrite("fedmirage.testing.checks")

from fedmirage.common.methods import METHODS  # noqa: E402
from fedmirage.runtimes.quick import BASE, BATCH_NORM  # noqa: E402
from fedmirage.testing import checks  # noqa: E402
from fedmirage.testing.inprocess import run_in_process  # noqa: E402
from fedmirage.testing.runs import arrays, assert_same_bits, lines, weights  # noqa: E402
from fedmirage.testing.seams import order_matters  # noqa: E402

__all__ = [
    "BASE",
    "BATCH_NORM",
    "MethodTests",
    "arrays",
    "assert_same_bits",
    "lines",
    "run_in_process",
    "weights",
]

MODELS = pytest.mark.parametrize("model", [BASE["model"], BATCH_NORM], ids=["plain", "batch-norm"])


class MethodTests:
    """The tests that every method must pass; a subclass whose name begins with Test runs them.

    Runs are short: four clients, 60 digits, two rounds, in the process of the test. The parameters
    are those that the method declares as `quick`.
    """

    method: ClassVar[str]
    """The name of the method, or its file, e.g. "./prior.py"."""
    like_fedavg: ClassVar[str] = ""
    """A line with parameters that take all effect away, e.g. "prior(strength=0)"."""

    @MODELS
    def test_it_does_something(self, model: str) -> None:
        """Two rounds end with finite weights that are not FedAvg's."""
        checks.check_acts(self.method, model)

    @MODELS
    def test_without_effect_it_is_fedavg_bit_for_bit(self, model: str, tmp_path: Path) -> None:
        """The degenerate case: whatever else differs is a mistake."""
        if not self.like_fedavg:
            pytest.skip("like_fedavg is empty: no parameters take all effect away")
        checks.check_is_fedavg(self.like_fedavg, tmp_path, model)

    def test_it_resumes_with_the_same_bits(self, tmp_path: Path) -> None:
        """What it keeps between rounds survives a kill."""
        checks.check_resumes(self.method, tmp_path)

    @MODELS
    def test_secure_aggregation_gives_the_plain_numbers(self, model: str, tmp_path: Path) -> None:
        """A sum is enough for it, or it is refused under secagg."""
        checks.check_secure(self.method, tmp_path, model)

    @pytest.mark.parametrize("other", METHODS.ours)
    def test_it_goes_with_another_method_or_is_refused(self, other: str) -> None:
        """Both count, in each order that makes a difference; unsound pairs get a reason."""
        pairs = [(self.method, other), (other, self.method)]
        sound = [pair for pair in pairs if not checks.check_refused(pair)]
        for pair in sound if order_matters(pairs[0]) else sound[:1]:
            checks.check_pair(pair)

    def test_it_stays_on_its_device(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing of it is left on the CPU when the run computes elsewhere."""
        checks.check_device(self.method, tmp_path, monkeypatch)
