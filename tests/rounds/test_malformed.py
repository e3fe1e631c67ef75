"""One malformed message costs its sender the round, and nobody else."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common import MessageTypeLegacy

from fedmirage.common.errors import FedmirageError
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import SMALL, lines

FAULTY = node_id(2)
Change = Callable[[RecordDict], Any]


def npy(header: str, content: bytes = b"") -> bytes:
    """An array whose header says whatever it likes."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, np.zeros(3))
    return file.getvalue()


def arrays(change: Callable[[list[bytes]], list[Any]]) -> Change:
    """Change the encoded arrays of a reply."""

    def changed(content: RecordDict) -> None:
        record = content.array_records["fitres.parameters"]
        tensors = change([array.data for array in record.values()])
        content.array_records["fitres.parameters"] = ArrayRecord(
            {
                str(number): Array(data=tensor, dtype="", stype="numpy.ndarray", shape=())
                for number, tensor in enumerate(tensors)
            }
        )

    return changed


def first(tensor: bytes) -> Change:
    return arrays(lambda tensors: [tensor, *tensors[1:]])


def metric(name: str, value: Any) -> Change:
    return lambda content: content.config_records["fitres.metrics"].update({name: value})


def examples(value: Any) -> Change:
    return lambda content: content.metric_records.update(
        {"fitres.num_examples": MetricRecord({"num_examples": value})}
    )


def huge(tensors: list[bytes]) -> list[bytes]:
    """The first array as it was, but with numbers of 1e38."""
    header = len(tensors[0]) - 4 * ((len(tensors[0]) - 128) // 4)
    count = (len(tensors[0]) - header) // 4
    return [tensors[0][:header] + np.full(count, 1e38, np.float32).tobytes(), *tensors[1:]]


MALFORMED: dict[str, Change] = {
    "no records at all": RecordDict.clear,
    "no parameters": lambda content: content.pop("fitres.parameters"),
    "no metrics": lambda content: content.pop("fitres.metrics"),
    "no number of examples": lambda content: content.pop("fitres.num_examples"),
    "no status": lambda content: content.pop("fitres.status"),
    "an unknown status": lambda content: content["fitres.status"].update({"code": 99}),
    "a list for a metric": metric("steps", [1, 2]),
    "a text for a metric": metric("steps", "many"),
    "bytes for a metric": metric("seconds", b"12"),
    "a metric that is not finite": metric("samples", float("nan")),
    "a negative count": metric("steps", -3),
    "a number for the layout": metric("layout", 7),
    "a layout of 10,000 digits": metric("layout", "shared:" + "9" * 10_000),
    "an unknown metric": metric("participants", 10**9),
    "npz for npy": first(npz()),
    "a header that promises 10^15 numbers": first(
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }")
    ),
    "a negative shape": first(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }")),
    "a header that is a program": first(npy("__import__('os').system('true')")),
    "a header without an end": first(npy("{'descr': '<f4', 'shape': (((((((((((((((((((((")),
    "objects": first(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"x" * 8)),
    "a structured type": first(
        npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", b"x" * 4)
    ),
    "texts": first(npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", b"x" * 4)),
    "complex numbers": first(
        npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", bytes(8))
    ),
    "an array that is cut off": arrays(lambda tensors: [tensors[0][:-5], *tensors[1:]]),
    "an empty array": first(b""),
    "more arrays than there are": arrays(lambda tensors: tensors * 2),
    "no array": arrays(lambda tensors: []),
    "weights of 1e38": arrays(huge),
    "2^62 examples": examples(2**62),
    "half an example": examples(0.5),
    "a negative number of examples": examples(-5),
}


def test_a_malformed_reply_costs_its_sender_the_round(tmp_path: Path) -> None:
    """One kind per round, from client 2."""
    kinds = list(MALFORMED)

    def intercept(node: int, reply: Message) -> Message:
        if node == FAULTY and reply.metadata.message_type == "train":
            MALFORMED[kinds[int(reply.metadata.group_id) - 1]](reply.content)
        return reply

    run_in_process(
        tmp_path, intercept, **{**SMALL, "rounds": len(kinds), "local_steps": 1, "eval_every": 99}
    )
    for kind, line in zip(kinds, lines(tmp_path), strict=True):
        assert [entry["partition"] for entry in line["refused"]] == [2], kind
        assert line["refused"][0]["reason"], kind
        assert [client["partition"] for client in line["clients"]] == [0, 1, 3], kind


@pytest.mark.parametrize(
    "change",
    [
        RecordDict.clear,
        lambda content: content.pop("getpropertiesres.properties"),
        lambda content: content["getpropertiesres.properties"].update({"partition": "two"}),
        lambda content: content["getpropertiesres.properties"].update({"partition": [2]}),
        lambda content: content["getpropertiesres.properties"].update({"partition": 0.5}),
        lambda content: content["getpropertiesres.properties"].update({"partition": 10**30}),
        lambda content: content["getpropertiesres.properties"].update({"classes": "\x1b[2J" * 999}),
        lambda content: content["getpropertiesres.properties"].update({"partition": 1}),
    ],
)
def test_malformed_properties_cost_their_node_its_place(
    tmp_path: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.server.messages.roster.GRACE", 0.0)

    def intercept(node: int, reply: Message) -> Message:
        if node == FAULTY and reply.metadata.message_type == MessageTypeLegacy.GET_PROPERTIES:
            change(reply.content)
        return reply

    with pytest.raises(FedmirageError, match=r"1 of 4 nodes were refused.*was refused:") as error:
        run_in_process(tmp_path, intercept, **SMALL)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    "change",
    [
        RecordDict.clear,
        lambda content: content.pop("evaluateres.loss"),
        lambda content: content["evaluateres.loss"].update({"loss": -1e300}),
        lambda content: content["evaluateres.loss"].update({"loss": float("nan")}),
        lambda content: content["evaluateres.num_examples"].update({"num_examples": 2**62}),
        lambda content: content["evaluateres.metrics"].update({"accuracy": "high"}),
        lambda content: content["evaluateres.metrics"].update({"invented": 1.0}),
    ],
)
def test_a_malformed_evaluation_does_not_count(tmp_path: Path, change: Change) -> None:
    def intercept(node: int, reply: Message) -> Message:
        if node == FAULTY and reply.metadata.message_type == "evaluate":
            change(reply.content)
        return reply

    run_in_process(tmp_path, intercept, **{**SMALL, "rounds": 1}, validation=0.2)
    (line,) = lines(tmp_path)
    assert line["validation"]["silent"] == [2]
    assert line["validation"]["clients"] == 3
    assert 0 < line["validation"]["loss"] < 10


def test_the_text_of_an_error_is_made_fit_to_be_shown(tmp_path: Path) -> None:
    def intercept(node: int, reply: Message) -> Message:
        if node == FAULTY and reply.metadata.message_type == "train":
            metrics = {"layout": "", "error": "\x1b[2J\nround 9/9: accuracy 1.0" + "!" * 9999}
            reply.content["fitres.metrics"] = ConfigRecord(metrics)
        return reply

    run_in_process(tmp_path, intercept, **{**SMALL, "rounds": 1})
    ((entry,),) = [line["refused"] for line in lines(tmp_path)]
    assert entry["reason"].startswith("[2J round 9/9: accuracy 1.0!!!")
    assert len(entry["reason"]) < 500
    assert entry["reason"].isprintable()
