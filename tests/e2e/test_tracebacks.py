"""A misspelt attribute in a method, with Ray's actors and with SuperNodes on this host."""

from pathlib import Path

import pytest

from tests.support.altered import METHOD, alter, assert_told
from tests.support.commands import fedmirage
from tests.support.runs import lines

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("runtime", ["simulation", "grpc"])
def test_a_misspelt_attribute_is_shown_once_and_not_tried_again(
    tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = alter(tmp_path, "client", "fedprox", "self.params.mu ", "self.params.muu ")
    monkeypatch.setenv("PYTHONPATH", change["PYTHONPATH"])
    folder = tmp_path / "run"
    done = fedmirage("run", *METHOD, "--runtime", runtime, "--out", str(folder))
    assert done.returncode == 1
    assert_told(done.stdout + done.stderr, folder)
    assert not lines(folder, "retry")
