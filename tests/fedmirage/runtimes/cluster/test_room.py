"""How many actors fit on the hosts of a cluster, and what each of them gets of a GPU."""

from typing import Any

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import configure
from fedmirage.runtimes.cluster import hosts as asked
from fedmirage.runtimes.cluster import room
from fedmirage.runtimes.cluster.hosts import Requirements, find_faults
from fedmirage.runtimes.cluster.room import Need, await_room, choose_need, count_room, require_room


def host(name: str, **resources: float) -> dict[str, Any]:
    return {
        "NodeID": name,
        "NodeManagerHostname": name,
        "NodeManagerAddress": f"{name}.lab",
        "Resources": resources,
    }


HOSTS = [host("one", CPU=8, GPU=2), host("two", CPU=3), host("three", CPU=4, GPU=1)]


@pytest.mark.parametrize(
    ("threads", "wanted", "device", "need", "fit"),
    [
        (1, 0, "cpu", Need(1), 15),
        (2, 0, "cpu", Need(2), 4 + 1 + 2),
        (1, 0, "auto", Need(1, 0.2), 8 + 0 + 4),  # 15 on three GPUs: five each
        (1, 3, "auto", Need(1, 1.0), 3),
        (1, 18, "auto", Need(1, 0.1666), 8 + 0 + 4),  # six rounded sixths must fit
    ],
)
def test_actors_share_what_there_is(
    threads: int, wanted: int, device: str, need: Need, fit: int
) -> None:
    assert choose_need(threads, wanted, device, HOSTS) == need
    assert count_room(need, HOSTS, free=False) == fit


@pytest.mark.parametrize("parts", range(1, 40))
def test_all_parts_of_a_gpu_fit_as_ray_counts_them(parts: int) -> None:
    counted = int(room.share_gpus(parts * 4, 4) * 1e4 + 0.5)  # in ten-thousandths
    assert parts * counted <= 10_000


def test_a_cluster_without_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError) as refused:
        require_room(Need(16), HOSTS, "one actor", "lower --threads")
    assert "one actor, which takes 16 CPUs: one (one.lab) 8 CPUs and 2 of a GPU" in str(
        refused.value
    )
    monkeypatch.setattr(room, "PATIENCE", 0.0)
    monkeypatch.setattr(room, "available_resources_per_node", lambda: {"one": {"CPU": 0.0}})
    with pytest.raises(ConfigurationError, match="others use the whole cluster, and an actor"):
        await_room(Need(1), HOSTS)
    monkeypatch.setattr(room, "available_resources_per_node", lambda: {"two": {"CPU": 3.0}})
    assert await_room(Need(1), HOSTS) == 3


def test_a_host_that_lacks_something_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure({"dataset": "npz(path='nowhere.npz')"})
    required = Requirements.of([configure({})])
    assert find_faults(required) == []
    (missing,) = find_faults(Requirements.of([config]))
    assert missing.startswith("cannot use the run's data or code: dataset")
    other = {**asked.describe_code(), "torch": "1.0", "fedmirage": "sha256:0"}
    monkeypatch.setattr(asked, "describe_code", lambda: other)
    first, second = find_faults(required)
    assert first.startswith("has torch 1.0, and this command ")
    assert second.startswith("has fedmirage sha256:0, and this command sha256:")
