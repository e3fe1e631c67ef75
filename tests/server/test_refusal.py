"""A run that is refused ends with a sentence where Flower would log a traceback."""

import logging

import pytest
from flwr.common import log

from fedmirage.common.errors import ConfigurationError
from fedmirage.server.refusal import WithoutTraceback, flower, in_a_sentence


def end_as_flower_does(error: Exception) -> None:
    log(logging.ERROR, "%s raised an exception", "ServerApp", exc_info=error)
    log(logging.ERROR, "Exit Code: 201\n\nAn unhandled exception occurred in the ServerApp.")
    log(logging.INFO, "something else")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(flower, "propagate", True)
    monkeypatch.setattr(flower, "filters", [])
    caplog.set_level(logging.INFO, "flwr")
    return caplog.messages


def test_a_sentence_takes_the_place_of_the_traceback(
    lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigurationError) as refused, in_a_sentence():
        raise ConfigurationError(["lr=-1: input should be greater than 0", "methods: none"])
    end_as_flower_does(refused.value)
    first = "the run failed: lr=-1: input should be greater than 0\nmethods: none"
    assert caplog.messages == [first, "something else"]
    assert "Traceback" not in caplog.text


def test_a_mistake_in_the_code_keeps_its_traceback(
    lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyError) as raised, in_a_sentence():
        raise KeyError("x")
    end_as_flower_does(raised.value)
    assert "Traceback" in caplog.text
    assert not any(isinstance(one, WithoutTraceback) for one in flower.filters)
