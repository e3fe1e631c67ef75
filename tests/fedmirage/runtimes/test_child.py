"""Where a run takes place, and how much disk space it will need."""

import errno
from pathlib import Path

import pytest
import ray
import torch
from rich.console import Console

from fedmirage import launch
from fedmirage.common import device
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.runtimes import ray_start
from fedmirage.runtimes.child import choose, estimate_space


@pytest.mark.parametrize("settings", [{"clients": 5}, {"clients": 1000, "rounds": 1000}])
def test_on_the_cpu_no_run_needs_ray(settings: dict[str, int]) -> None:
    chosen, why = choose(configure({**settings, "device": "cpu"}))
    assert chosen == "inprocess"
    assert "--runtime simulation" in why


def test_ray_shares_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "pick", lambda name: torch.device("cuda"))
    chosen, why = choose(configure({"clients": 5}))
    assert chosen == "simulation"
    assert "computes on cuda" in why


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"clients": 3, "device": "cpu"}, {"num_cpus": 2, "num_gpus": 0}),
        ({"clients": 3, "participation": 0.3}, {"num_cpus": 1}),
    ],
)
def test_ray_is_started_for_as_many_actors_as_train(
    settings: dict[str, int], options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPUs are counted by Ray itself, unless the run leaves them alone."""
    asked: dict[str, int] = {}
    monkeypatch.setattr(ray, "init", lambda **given: asked.update(given))
    monkeypatch.setattr(ray_start, "cores", lambda: 2)
    ray_start.start_ray(configure(settings), verbose=True)
    fixed = {"address": "local", "include_dashboard": False, "_system_config": ray_start.SYSTEM}
    assert asked == {**fixed, **options}


def test_ray_that_does_not_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its processes was killed meanwhile, for instance."""

    def fail(**_: object) -> None:
        raise Exception("The current node timed out during startup.\n  This could happen because")

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(FedmirageError, match=r"Ray did not start: The current .* startup\. This"):
        ray_start.start_ray(configure({}))


def test_of_a_process_that_ended_its_words_are_shown_and_no_addresses() -> None:
    """What the driver of Ray says when Ray's own server was killed."""
    frame = "/usr/lib/libpython3.11.so.1.0(+0x250a40) [0x7ff9bf650a40] _PyEval_Vector\n"
    log = f"C gcs.cc:1: Failed to connect to GCS.\n*** StackTrace Information ***\n{frame * 20}"
    told = str(launch.make_error({}, 1, log))
    assert told.startswith("the process of the run ended with code 1: C gcs.cc:1: Failed to connec")
    assert "0x" not in told
    assert "StackTrace" not in told


def test_a_process_that_was_killed_is_a_sentence_that_says_what_to_do() -> None:
    assert "was killed, as systems do when memory runs out" in str(launch.make_error({}, -9, ""))


def test_a_disk_that_is_full_before_the_run_begins_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower's processes have logs and a home of their own in the folder of the run."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(launch, "attend", fail)
    reason = f"No space left on device while writing {tmp_path}; free some space there, then start"
    with pytest.raises(FedmirageError, match=reason):
        launch.conduct(configure({}), "grpc", tmp_path, Console(quiet=True), 0, False)


def test_kept_models_are_counted_before_they_are_there() -> None:
    config = configure({"clients": 4, "rounds": 100, "keep_models": "all"})
    text = estimate_space(config, 2_000_000)
    assert "at least 1000 MB" in text
    assert "200 MB of global models, 800 MB that clients remember" in text
