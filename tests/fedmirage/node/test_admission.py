"""Why a node is turned away by its SuperLink is said in a sentence."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.supernode import start_client_internal as flower
from grpc import StatusCode

from fedmirage.common.errors import FedmirageError
from fedmirage.node.admission import MAKER, Admission, explain

WHERE = ("h:9092", "node.key")


@pytest.mark.parametrize(
    ("code", "details", "connected", "told"),
    [
        ("FAILED_PRECONDITION", '{"code": 2001}', False, "write --auth-supernode-private-key FILE"),
        ("FAILED_PRECONDITION", '{"code": 2004}', False, "fedmirage admit node.key.pub"),
        ("FAILED_PRECONDITION", "something else", False, "refuses this node: something else"),
        ("FAILED_PRECONDITION", '{"code": 2004}', True, None),
        ("UNAUTHENTICATED", "", True, "has revoked this node's key (node.key), so the node ends"),
        ("UNAVAILABLE", "Tls handshake failed", False, "cannot agree on TLS"),
        ("UNAVAILABLE", "connection refused", False, None),
    ],
)
def test_sentences(code: str, details: str, connected: bool, told: str | None) -> None:
    said = explain(code, details, *WHERE, connected)
    assert told in said if told else said == ""


def test_without_a_key_nothing_can_be_revoked() -> None:
    assert "start it again" in explain("UNAUTHENTICATED", "", "h:9092", None, True)


class FaultError(Exception):
    """An error of gRPC's."""

    def __init__(self, code: StatusCode, text: str = "") -> None:
        super().__init__(code)
        self.status, self.text = code, text

    def code(self) -> StatusCode:
        return self.status

    def details(self) -> str:
        return self.text


def follow(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[int]]:
    """Make the object through which all requests of a node go, and the codes with which it ends."""
    calls = {
        "should_giveup": lambda error: error.code() is not StatusCode.UNAVAILABLE,  # as Flower's
        "on_success": lambda state: None,
    }
    monkeypatch.setattr(flower, MAKER, lambda: SimpleNamespace(**calls))
    admission, codes = Admission(*WHERE), []
    monkeypatch.setattr(admission, "end", codes.append)
    admission.follow(flower)
    return getattr(flower, MAKER)(), codes


def test_silence_is_said_once_and_a_revoked_key_ends_the_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    invoker, codes = follow(monkeypatch)
    with caplog.at_level(logging.INFO, "fedmirage"):
        for _ in range(2):
            assert not invoker.should_giveup(FaultError(StatusCode.UNAVAILABLE))
        for _ in range(2):
            invoker.on_success(None)
        assert invoker.should_giveup(FaultError(StatusCode.UNAUTHENTICATED))
    assert codes == [1]
    first, second, third = caplog.messages
    assert first == "the SuperLink at h:9092 does not answer; trying again"
    assert second == "connected to the SuperLink at h:9092"
    assert third.startswith("error: the SuperLink at h:9092 has revoked")


def test_a_request_that_a_superlink_had_when_it_ended_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    invoker, codes = follow(monkeypatch)
    with caplog.at_level(logging.INFO, "fedmirage"):
        assert not invoker.should_giveup(FaultError(StatusCode.CANCELLED, "CANCELLED"))
    assert caplog.messages == ["the SuperLink at h:9092 does not answer; trying again"]
    for own in ("Locally cancelled by application!", "Channel closed!"):
        assert invoker.should_giveup(FaultError(StatusCode.CANCELLED, own))
    assert codes == []


def test_a_flower_without_that_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(flower, MAKER)
    with pytest.raises(FedmirageError, match="cannot say why it is turned away"):
        Admission(*WHERE).follow(flower)
