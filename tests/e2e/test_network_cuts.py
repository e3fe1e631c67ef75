"""Secure rounds over gRPC between network namespaces, whose cables are pulled for some seconds.

Every node has a namespace with an address of its own, and the SuperLink is outside of them.
"""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.runtimes import grpc
from tests.support.cables import Spread, lay_cables, plug_in, pull
from tests.support.trials import Trial, trials

pytestmark = pytest.mark.slow

CLIENTS = 4


@pytest.fixture(scope="module", autouse=True)
def cables() -> Iterator[None]:
    with lay_cables(CLIENTS):
        yield


def cut(nodes: list[int], after: float, seconds: float, over: threading.Event) -> None:
    """Pull some cables, and put them back; do nothing if the run is over by then."""
    if over.wait(after):
        return
    for node in nodes:
        pull(node)
    time.sleep(seconds)
    for node in nodes:
        plug_in(node)


@pytest.mark.parametrize("seed", trials(10, few=2))
def test_a_cut_changes_no_bit(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it ends the run with a sentence, and the run that is resumed has the same bits."""
    rng = random.Random(seed)
    monkeypatch.setattr(grpc, "Federation", Spread)
    trial = Trial(tmp_path / "run", "grpc", "on")
    settings = {**trial.settings, "round-timeout": 120, "node-timeout": 120}
    config = configure({key.replace("-", "_"): value for key, value in settings.items()})
    nodes = sorted(rng.sample(range(CLIENTS), rng.choice([1, 2, CLIENTS])))
    # The whole command, by which the moment is drawn, does more than what is cut here.
    moment, seconds, over = 0.7 * trial.draw_moment(rng), rng.uniform(2, 25), threading.Event()
    cutting = threading.Thread(target=cut, args=(nodes, moment, seconds, over))
    cutting.start()
    began, ended = time.monotonic(), "went on"
    try:
        grpc.deploy(config, Console(quiet=True))
        over.set()
    except FedmirageError as error:
        ended = str(error)
        cutting.join()
        grpc.deploy(config.model_copy(update={"resume": str(trial.folder)}), Console(quiet=True))
    lasted = time.monotonic() - began
    cutting.join()
    trial.check()
    if lasted < moment:
        pytest.skip(
            f"nothing was cut: the run took {lasted:.0f} s, the cut was due at {moment:.0f}"
        )
    print(f"{seed} nodes {nodes} cut at {moment:.1f} s for {seconds:.1f} s: {ended}")
    assert trial.whole
