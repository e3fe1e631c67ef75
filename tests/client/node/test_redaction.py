"""What leaves a node when something fails, and where the server can make it write."""

import logging
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common import FitIns, MessageType, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.app import keep_details, make_app
from fedmirage.client.node.redaction import FAILURE, UNUSABLE_DATA, VARIABLE, tell
from fedmirage.common.errors import DataError, FedmirageError, WireError
from fedmirage.common.settings.config import configure
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import SMALL, lines

SECRET = "label 'Erika Mustermann, HIV'"
FULL = "its disk is full (No space left on device); free some space there"
CONTEXT = Context(1, node_id(0), {"partition-id": 0}, RecordDict(), {})


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError(f"{SECRET} is not a class"), UNUSABLE_DATA),
        (KeyError(SECRET), FAILURE),
        (MemoryError(SECRET), FAILURE),
        (OSError(28, "No space left on device", SECRET), FULL),
        (WireError("the server names the run '..'"), "the server names the run '..'"),
    ],
)
def test_nothing_of_the_data_is_told(
    error: Exception, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(message: Message, context: Context) -> Message:
        raise error

    message = Message(RecordDict(), 1, MessageType.TRAIN)
    with caplog.at_level(logging.WARNING, "flwr"):
        reply = keep_details(message, CONTEXT, fail)
    assert reply.error.reason == told  # and nothing round it, as Flower would write
    assert (SECRET in caplog.text) == (SECRET in str(error))


def test_a_message_that_fails_leaves_no_trace_in_the_state() -> None:
    def fail(message: Message, context: Context) -> Message:
        context.state["kept"] = ConfigRecord({"number": 2})
        raise WireError("no")

    context = Context(1, 2, {}, RecordDict({"kept": ConfigRecord({"number": 1})}), {})
    keep_details(Message(RecordDict(), 1, MessageType.TRAIN), context, fail)
    assert context.state["kept"] == ConfigRecord({"number": 1})


def test_on_the_server_s_own_host_everything_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first traceback stays, and a text of any length leaves room for the name of its file."""
    kept = tmp_path / "traceback.txt"
    monkeypatch.setenv(VARIABLE, str(kept))
    assert tell(DataError("label 7 is not a class")) == "label 7 is not a class"
    assert not kept.exists()
    told = tell(KeyError("first"))
    assert told == f"its code raised KeyError: 'first' (the first traceback is in {kept})"
    assert "x" * 200 not in (long := tell(ValueError("x" * 2000)))
    assert long.endswith(f"... (the first traceback is in {kept})")
    assert kept.read_text() == "KeyError: 'first'\n"


def test_a_client_that_fails_says_so_without_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, *arguments: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr("fedmirage.client.client.FederatedClient.metrics", fail)
    with pytest.raises(FedmirageError, match="its code raised an exception"):
        run_in_process(tmp_path, **{**SMALL, "rounds": 1, "retries": 0})
    assert SECRET not in (tmp_path / "results.jsonl").read_text()
    assert not lines(tmp_path)


ELSEWHERE = ["../../elsewhere", "/tmp/elsewhere", "0" * 15, "0" * 16 + "/"]


@pytest.mark.parametrize(
    ("token", "parent"),
    [(name, "") for name in ["", *ELSEWHERE]] + [("0" * 16, f"{name}@1") for name in ELSEWHERE],
)
def test_the_server_does_not_choose_where_a_node_writes(
    tmp_path: Path, token: str, parent: str
) -> None:
    config = configure({**SMALL, "out": str(tmp_path / "run")})
    asked = {"layout": "shared:0", "round": 1, "token": token, "parent": parent}
    message = Message(
        compat.fitins_to_recorddict(FitIns(ndarrays_to_parameters([]), asked), True),
        node_id(0),
        MessageType.TRAIN,
    )
    reply = make_app(config, tmp_path / "node" / "memory")(message, CONTEXT)
    told = compat.recorddict_to_fitres(reply.content, True).metrics["error"]
    assert "and not by 16 digits" in str(told)
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "node").exists()
