"""What holds for every test.

Nothing leaves the machine, nothing touches the user's own folders, and every process has one
thread. Tests that start Ray or Flower's processes belong in tests/e2e. They need the whole machine,
so `make test` runs them one at a time after the others. (xdist's groups would do it in one go, but
xdist 3.8 ignores them beside pytest 9.2.)
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Before anything imports flwr, ray, huggingface_hub or matplotlib; the processes that tests start
# inherit it.
os.environ.update(
    FLWR_TELEMETRY_ENABLED="0",
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1",
    RAY_USAGE_STATS_ENABLED="0",
    HF_HUB_OFFLINE="1",
    MPLBACKEND="Agg",
)

import torch

torch.set_num_threads(1)

END_TO_END = Path(__file__).parent / "e2e"


def is_worker() -> bool:
    """Whether this is one of xdist's workers; they inherit the environment of the process that
    started them."""
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_configure(config: pytest.Config) -> None:
    """Gives the session a home of its own for caches and Flower's files, the same one for every
    worker."""
    if not is_worker():
        home = tempfile.mkdtemp(prefix="fedmirage-tests-")
        os.environ.update(
            FEDMIRAGE_TEST_HOME=home, FEDMIRAGE_CACHE=f"{home}/cache", FLWR_HOME=f"{home}/flwr"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker():
        shutil.rmtree(os.environ["FEDMIRAGE_TEST_HOME"], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Never lets two end-to-end tests run at the same time."""
    for item in items:
        if is_worker() and END_TO_END in item.path.parents:
            item.add_marker(
                pytest.mark.skip("end-to-end tests run one at a time: pytest tests/e2e, without -n")
            )


@pytest.fixture(autouse=True)
def _restore_threads():
    """A test that changes the number of threads does not change it for the next one."""
    yield
    torch.set_num_threads(1)
