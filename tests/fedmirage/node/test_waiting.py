"""Adaptive waiting: how long, and that a Flower without the places for it is refused."""

import time
from types import ModuleType

import pytest
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.superexec import run_superexec
from flwr.supernode import start_client_internal

from fedmirage.common.errors import FedmirageError
from fedmirage.common.flower import SHORTEST, WAITING, fetch_as_configured, fetch_promptly
from fedmirage.node.waiting import SHARE, Pace, set_pace


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, in place of waiting; a clock that a test sets stands in for the time."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


@pytest.mark.parametrize(
    ("since", "wait"),
    [(0.0, SHORTEST), (SHORTEST / SHARE, SHORTEST), (20.0, 20 * SHARE), (1e6, 3.0)],
)
def test_a_wait_is_a_share_of_the_time_since_something_happened(
    since: float, wait: float, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Pace()
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    pace.note()
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + since)
    pace.sleep(3)
    assert slept == [pytest.approx(wait)]


def test_a_node_to_which_nothing_has_happened_waits_as_long_as_flowers(slept: list[float]) -> None:
    Pace().sleep(3)
    assert slept == [3]


def test_everything_else_is_the_time_module() -> None:
    assert Pace().monotonic is time.monotonic


def make_module() -> ModuleType:
    """A module of Flower in small: its step waits for a reply that takes long."""
    module = ModuleType("loop")
    module.time = time  # type: ignore[attr-defined]

    def push() -> None:
        module.time.sleep(0.5)
        clock.append(clock[-1] + 60)

    clock = [100.0]
    module.clock, module.push = clock, push  # type: ignore[attr-defined]
    return module


def test_waits_are_short_after_a_message_and_after_its_reply(
    slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = make_module()
    monkeypatch.setattr(time, "monotonic", lambda: module.clock[-1])
    set_pace(module, "push")
    module.time.sleep(3)
    module.push()
    module.time.sleep(3)
    assert slept == [3, SHORTEST, SHORTEST]


def test_this_flower_has_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    step = start_client_internal._push_messages
    for module in (start_client_internal, run_superexec):
        monkeypatch.setattr(module, "time", time)  # puts it back after the test
    monkeypatch.setattr(start_client_internal, "_push_messages", step)
    set_pace(start_client_internal, "_push_messages")
    set_pace(run_superexec)
    assert start_client_internal._push_messages is not step


@pytest.mark.parametrize("name", ["time", "push"])
def test_a_flower_without_them_is_refused(name: str) -> None:
    module = make_module()
    delattr(module, name)
    sentence = f"has no {name}, so the waiting in loop cannot be adapted .*install flwr 1.34"
    with pytest.raises(FedmirageError, match=sentence):
        set_pace(module, "push")


def test_a_flower_that_fetches_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def pull_objects() -> None: ...

    monkeypatch.setattr(inflatable_utils, "pull_objects", pull_objects)
    with pytest.raises(FedmirageError, match="has no initial_backoff, so the waiting in pull"):
        fetch_promptly()


@pytest.fixture
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts Flower's waits back after the test."""
    for name in ("pull_objects", "pull_and_inflate_object_from_tree"):
        function = getattr(inflatable_utils, name)
        monkeypatch.setattr(function, "__kwdefaults__", dict(function.__kwdefaults__))
        function.__kwdefaults__["initial_backoff"] = 1


@pytest.mark.usefixtures("defaults")
@pytest.mark.parametrize(("waiting", "prompt"), [("adaptive", True), ("flower", False)])
def test_what_has_not_arrived_is_fetched_again_soon(
    waiting: str, prompt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WAITING, waiting)
    fetch_as_configured()
    tries: list[float] = []

    def fetch(_: str) -> bytes:
        tries.append(time.monotonic())
        if len(tries) < 2:
            raise inflatable_utils.ObjectUnavailableError("part")
        return b"content"

    assert inflatable_utils.pull_objects(["part"], fetch) == {"part": b"content"}
    assert (tries[1] - tries[0] < 0.7) == prompt  # Flower waits for 0.8 to 1.2 s
