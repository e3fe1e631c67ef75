"""A signal to the process of a ServerApp: the run hears it before Flower's handler does."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from fedmirage.server.interruption import ENDS, heard_first


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What happened, in order; Flower's handler stands for one that ends the process."""
    order: list[str] = []

    def end(number: int, frame: FrameType | None) -> None:
        order.append(f"Flower heard {number}")
        raise SystemExit

    before = {number: signal.signal(number, end) for number in ENDS}
    yield order
    for number, handler in before.items():
        signal.signal(number, handler)


def run_until(number: int, told: list[str]) -> None:
    """A run that is told to end, twice."""
    with heard_first():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            signal.raise_signal(number)  # changes nothing
            told.append("the run has ended")
            raise


@pytest.mark.parametrize("number", ENDS)
def test_the_run_cleans_up_before_flower_ends_the_process(told: list[str], number: int) -> None:
    with pytest.raises(SystemExit):
        run_until(number, told)
    assert told == ["the run has ended", f"Flower heard {int(number)}"]


def test_without_a_signal_flowers_handlers_are_back_afterwards(told: list[str]) -> None:
    with heard_first():
        pass
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
    assert told == [f"Flower heard {int(signal.SIGTERM)}"]
