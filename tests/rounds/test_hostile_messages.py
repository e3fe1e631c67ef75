"""Hostile messages of secure rounds, one by one: from a server to a client, and back.

Each is answered with one sentence that holds nothing else, and afterwards the round can be done: by
the same clients if the server was hostile, or without the client that was.
"""

import os
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedmirage.common.errors import FedmirageError
from fedmirage.common.secagg import protocol as wire
from fedmirage.common.secagg.protocol import ADVERTISE, AGREE, MASK, OPEN, SHARE, Try
from fedmirage.common.secagg.shamir import SHARE as SHARE_SIZE
from tests.support.hostile import HostileServer, RefusedError
from tests.support.inprocess import Intercept, node_id, run_in_process
from tests.support.pairs import BASE
from tests.support.runs import lines, weights
from tests.support.secure_rounds import both, exchange_long_term_keys, lose, stage_of

# From a server to client 0 of five, of which client 4 was lost if they have to agree.

LEFT = [0, 1, 2, 3]
MISSING = object()
Request = dict[str, Any]
Change = dict[str, Any] | Callable[[HostileServer, Request], Any]


def swap(name: str, size: int) -> Callable[[HostileServer, Request], Any]:
    """Exchange the first two parts of a field."""

    def change(_: HostileServer, request: Request) -> None:
        whole = request[name]
        request[name] = whole[size : 2 * size] + whole[:size] + whole[2 * size :]

    return change


def own_key_of_another(server: HostileServer, request: Request) -> None:
    size = wire.PAIRS * 32
    request["keys"] = request["keys"][size : 2 * size] + request["keys"][size:]


def of_an_earlier_try(server: HostileServer, request: Request) -> None:
    """What the others sealed when the round was tried before."""
    request["sealed"] = b"".join(server.earlier[other, 0] for other in (1, 2, 3, 4))


def for_another_client(server: HostileServer, request: Request) -> None:
    request["sealed"] = b"".join(server.sealed[other, 1] for other in (0, 2, 3, 4))


def tags_for_another_client(server: HostileServer, request: Request) -> None:
    request["tags"] = b"".join(server.tags[1].get(other, bytes(32)) for other in (1, 2, 3))


FROM_SERVER: dict[str, tuple[str, Change, str]] = {
    # what it is: the exchange, what is changed in the request, and why the client refuses
    "another version": (ADVERTISE, {"version": "mt19937"}, "the server speaks 'mt19937'"),
    "no version": (ADVERTISE, {"version": MISSING}, "the server speaks None"),
    "a path as token": (ADVERTISE, {"token": "../../elsewhere"}, "names the run '../../else"),
    "a token in capitals": (ADVERTISE, {"token": "0123456789ABCDEF"}, "names the run '01234"),
    "a number as token": (ADVERTISE, {"token": 7}, "round 1 of run 7 is none"),
    "a second token": (ADVERTISE, {"token": "fedcba9876543210"}, "gives one run two tokens"),
    "round -1": (ADVERTISE, {"round": -1}, "round -1 of run .* is none"),
    "round '1'": (ADVERTISE, {"round": "1"}, "round '1' of run .* is none"),
    "round 1.5": (ADVERTISE, {"round": 1.5}, r"round 1\.5 of run .* is none"),
    "no round": (ADVERTISE, {"round": MISSING}, "round None of run .* is none"),
    "a number as model": (ADVERTISE, {"model": 3}, "round 1 of run .* is none"),
    "an exchange that is none": (ADVERTISE, {"stage": "dance"}, "to dance before it may"),
    "a list as exchange": (ADVERTISE, {"stage": [1]}, "before it may"),
    "a client twice": (SHARE, {"partitions": [0, 1, 2, 3, 3]}, "clients is malformed"),
    "fewer names than keys": (SHARE, {"partitions": [0, 1, 2, 3]}, "clients is malformed"),
    "descending": (SHARE, {"partitions": [4, 3, 2, 1, 0]}, "clients is malformed"),
    "a negative client": (SHARE, {"partitions": [-1, 0, 1, 2, 3]}, "clients is malformed"),
    "names as texts": (SHARE, {"partitions": ["0", "1", "2", "3", "4"]}, "clients is malformed"),
    "a stranger": (SHARE, {"partitions": [0, 1, 2, 3, 9]}, "client 9 is not among the clients"),
    "without this client": (SHARE, {"partitions": [1, 2, 3, 4, 5]}, "client 5 is not among"),
    "no clients": (SHARE, {"partitions": [], "keys": b""}, "wants the sum of 0 clients"),
    "too few clients": (SHARE, {"partitions": [0, 1], "keys": b"\1" * 192}, "sum of 2 clients"),
    "junk for keys": (SHARE, {"keys": b"junk"}, "clients is malformed"),
    "text for keys": (SHARE, {"keys": "junk"}, "clients is malformed"),
    "weak keys": (SHARE, {"keys": bytes(5 * 96)}, "names it with other keys"),
    "its own keys changed": (SHARE, own_key_of_another, "names it with other keys"),
    "exchanged keys": (SHARE, swap("keys", 96), "names it with other keys"),
    "no signatures": (SHARE, {"signatures": MISSING}, "request is malformed"),
    "too few signatures": (SHARE, {"signatures": [b""]}, "request is malformed"),
    "key shares too early": (MASK, {"stage": OPEN}, "asks this client to open before it may"),
    "no key shares": (MASK, {"sealed": MISSING}, "request is malformed"),
    "empty key shares": (MASK, {"sealed": b""}, "key shares of other clients than the try's"),
    "text for key shares": (MASK, {"sealed": "text"}, "key shares of other clients"),
    "zeros for key shares": (MASK, {"sealed": bytes(4 * wire.SEALED)}, "of client 1 are malf"),
    "exchanged key shares": (MASK, swap("sealed", wire.SEALED), "of client 1 are malformed"),
    "replayed key shares": (MASK, of_an_earlier_try, "of client 1 are malformed"),
    "another's key shares": (MASK, for_another_client, "of client 1 are malformed"),
    "nobody is left": (AGREE, {"survivors": []}, "open a sum of 0 clients"),
    "who is left, as text": (AGREE, {"survivors": "all"}, "remaining clients is malformed"),
    "who is left, missing": (AGREE, {"survivors": MISSING}, "request is malformed"),
    "two are left": (AGREE, {"survivors": [0, 1]}, "open a sum of 2 clients"),
    "a stranger is left": (AGREE, {"survivors": [0, 1, 2, 7]}, "remaining clients is malf"),
    "it is not left": (AGREE, {"survivors": [1, 2, 3, 4]}, "a sum without this client"),
    "one is left twice": (AGREE, {"survivors": [0, 1, 1, 2, 3]}, "remaining clients is malf"),
    "nobody is in the sum": (OPEN, {"survivors": []}, "open a sum of 0 clients"),
    "others than agreed": (OPEN, {"survivors": [0, 1, 2, 4]}, "than the clients have agreed on"),
    "all, against its word": (OPEN, {"survivors": [0, 1, 2, 3, 4]}, "have agreed on"),
    "nobody agrees": (OPEN, {"sources": [], "tags": b""}, "0 other clients agree"),
    "no word of who agrees": (OPEN, {"sources": MISSING}, "request is malformed"),
    "false tags": (OPEN, {"tags": bytes(96)}, "0 other clients agree"),
    "too few tags": (OPEN, {"tags": bytes(32)}, "request is malformed"),
    "text for tags": (OPEN, {"tags": "text"}, "request is malformed"),
    "exchanged tags": (OPEN, swap("tags", 32), "1 other clients agree"),
    "another's tags": (OPEN, tags_for_another_client, "0 other clients agree"),
    "its own word": (OPEN, {"sources": [0, 1, 2]}, "clients that agree is malformed"),
    "one agrees thrice": (OPEN, {"sources": [1, 1, 1]}, "clients that agree is malformed"),
}


def prepare(server: HostileServer, stage: str) -> Request:
    """Do by the rules whatever precedes an exchange, and return the request that would follow."""
    server.exchange_keys(range(5))
    if stage == ADVERTISE:
        return {"version": wire.VERSION, **server.task.write()}
    if stage == SHARE:
        return {**Try(server.task, server.keys).write(), "signatures": [b""] * 5}
    server.share_keys()
    server.earlier = server.sealed
    if stage == MASK:
        server.begin(range(5))
        return {"sealed": b"".join(server.sealed[other, 0] for other in (1, 2, 3, 4))}
    for who in LEFT:
        server.collect(who)
    if stage == AGREE:
        return {"survivors": LEFT}
    for who in LEFT:
        server.agree(who, LEFT)
    told = server.tags[0]
    return {
        "survivors": LEFT,
        "sources": [1, 2, 3],
        "tags": b"".join(told[one] for one in LEFT[1:]),
    }


def finish(server: HostileServer) -> np.ndarray:
    """Do a round by the rules that has lost client 4."""
    server.begin(range(5))
    for who in LEFT:
        server.collect(who)
    for who in LEFT:
        server.agree(who, LEFT)
    for who in LEFT:
        server.unmask(who, LEFT)
    return server.open(set(LEFT))


@pytest.mark.parametrize("what", FROM_SERVER)
def test_a_client_refuses_a_hostile_message(tmp_path: Path, what: str) -> None:
    stage, change, reason = FROM_SERVER[what]
    server = HostileServer(tmp_path, 5)
    request = {"stage": stage, **prepare(server, stage)}
    if callable(change):
        change(server, request)
    else:
        request = {name: it for name, it in {**request, **change}.items() if it is not MISSING}
    with pytest.raises(RefusedError, match=reason) as refused:
        server.ask(0, request.pop("stage"), request)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert np.array_equal(finish(server), server.sum_of(LEFT))


@pytest.mark.parametrize("stage", [SHARE, MASK, AGREE, OPEN])
def test_a_client_refuses_what_comes_too_early(tmp_path: Path, stage: str) -> None:
    server = HostileServer(tmp_path, 5)
    server.exchange_keys(range(5))
    server.restart_nodes()
    with pytest.raises(RefusedError, match=f"to {stage} before it may"):
        server.ask(0, stage, {})
    assert np.array_equal(finish(server), server.sum_of(LEFT))


@pytest.mark.parametrize("stage", [SHARE, MASK])
def test_a_client_refuses_what_it_has_answered(tmp_path: Path, stage: str) -> None:
    """Among them a second vector."""
    server = HostileServer(tmp_path, 5)
    request = prepare(server, stage)
    server.ask(0, stage, deepcopy(request))
    with pytest.raises(RefusedError, match=f"to {stage} before it may"):
        server.ask(0, stage, request)
    assert np.array_equal(finish(server), server.sum_of(LEFT))


@pytest.mark.parametrize("forged", [b"", b"junk", bytes(64), "text", "another's", "earlier"])
def test_a_client_refuses_false_signatures(tmp_path: Path, forged: Any) -> None:
    server = HostileServer(tmp_path, 5, node_configs=exchange_long_term_keys(tmp_path, 5))
    server.exchange_keys(range(5))
    earlier = server.signatures
    server.exchange_keys(range(5))
    found = {"another's": server.signatures[2], "earlier": earlier[1]}.get(forged, forged)
    signatures = [server.signatures[0], found, *(server.signatures[who] for who in (2, 3, 4))]
    if isinstance(found, str):
        signatures = ["text"] * 5
    request = {**Try(server.task, server.keys).write(), "signatures": signatures}
    with pytest.raises(RefusedError, match=r"client 1 are not signed with the key in 1\.pub"):
        server.ask(0, SHARE, request)
    assert np.array_equal(finish(server), server.sum_of(LEFT))


# From client 1 of four to a server that does without one of them.

SMALL = {**BASE, "eval_every": 1, "rounds": 2, "secagg": "on", "round_timeout": 0.5}
NAMES = {ADVERTISE: "keys", SHARE: "sealed", MASK: "vector", AGREE: "tags", OPEN: "shares"}


def put(**fields: Any) -> Callable[[Any, Any], None]:
    """Put something else into the record of the reply."""

    def change(record: Any, _: Any) -> None:
        for name, value in fields.items():
            record.pop(name, None)
            if value is not MISSING:
                record[name] = value

    return change


def edit(stage: str, make: Callable[[bytes], Any]) -> Callable[[Any, Any], None]:
    """Change what the reply holds."""

    def change(record: Any, _: Any) -> None:
        record[NAMES[stage]] = make(record[NAMES[stage]])

    return change


def replay(record: Any, earlier: Any) -> None:
    """Send what was right in round 1."""
    record.update(earlier)


def rotate(size: int) -> Callable[[bytes], bytes]:
    return lambda content: content[size:] + content[:size]


def refuse(**told: Any) -> Callable[[RecordDict], None]:
    """Say that it does not take part, with whatever it likes."""

    def change(content: RecordDict) -> None:
        content.clear()
        content[wire.REFUSAL] = ConfigRecord(told)

    return change


def same_length(content: bytes) -> bytes:
    return os.urandom(len(content))


FORMS: dict[str, Callable[[bytes], Any]] = {
    "text": lambda _: "text",
    "nothing": lambda _: b"",
    "a number": lambda _: 7,
    "a list": lambda content: [content],
    "a byte less": lambda content: content[:-1],
    "a byte more": lambda content: content + b"x",
    "twice": lambda content: content * 2,
}
FROM_CLIENT: dict[str, tuple[str, Callable[..., None]]] = {
    # what it is: the exchange, and what happens to the record of the reply, or to all of it
    **{
        f"{stage}: {form}": (stage, edit(stage, make))
        for stage in NAMES
        for form, make in FORMS.items()
    },
    "keys of zeros": (ADVERTISE, put(keys=bytes(96))),
    "keys of ones": (ADVERTISE, put(keys=b"\xff" * 96)),
    "one key three times": (ADVERTISE, put(keys=b"\x09" * 96)),
    "keys that it does not have": (ADVERTISE, edit(ADVERTISE, rotate(32))),
    "replayed keys": (ADVERTISE, replay),
    "another version": (ADVERTISE, put(version="mt19937")),
    "no version": (ADVERTISE, put(version=MISSING)),
    "no signature": (ADVERTISE, put(signature=MISSING)),
    "text for a signature": (ADVERTISE, put(signature="text")),
    "random key shares": (SHARE, edit(SHARE, same_length)),
    "exchanged key shares": (SHARE, edit(SHARE, rotate(wire.SEALED))),
    "replayed key shares": (SHARE, replay),
    "random tags": (AGREE, edit(AGREE, same_length)),
    "exchanged tags": (AGREE, edit(AGREE, rotate(32))),
    "random shares": (OPEN, edit(OPEN, same_length)),
    "shares of zeros": (OPEN, edit(OPEN, lambda content: bytes(len(content)))),
    "shares that are none": (OPEN, edit(OPEN, lambda content: b"\xff" * len(content))),
    "exchanged shares": (OPEN, edit(OPEN, rotate(SHARE_SIZE))),
    "replayed shares": (OPEN, replay),
}
ALL_OF_IT: dict[str, tuple[str, Callable[[RecordDict], Any]]] = {
    "an empty reply": (ADVERTISE, RecordDict.clear),
    "an empty reply later": (MASK, RecordDict.clear),
    "a refusal without a reason": (ADVERTISE, refuse(names=[1])),
    "a refusal with a number for a reason": (ADVERTISE, refuse(reason=7)),
    "a refusal that would clear the screen": (ADVERTISE, refuse(reason="\x1b[2J\n" * 999)),
    "a refusal that names a stranger": (MASK, refuse(reason="it lies", names=[99])),
    "a refusal that names nobody": (MASK, refuse(reason="it lies", names=[])),
    "a refusal that names texts": (MASK, refuse(reason="it lies", names=["0"])),
    "a refusal that names all": (MASK, refuse(reason="it lies", names=[0, 2, 3])),
    "a refusal bound to strangers": (SHARE, refuse(reason="it lies", clients=[7, 8, 9])),
    "a refusal bound to itself and strangers": (SHARE, refuse(reason="it lies", clients=[1, 7, 8])),
    "a refusal bound to others": (SHARE, refuse(reason="it lies", clients=[0, 2, 3])),
}


def alter(stage: str, record: Callable[..., None] | None, whole: Any = None) -> Intercept:
    """Client 1 changes its replies of an exchange in round 2."""
    earlier: dict[str, Any] = {}

    def intercept(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == stage:
            if reply.metadata.group_id == "1":
                earlier.update(reply.content.config_records[wire.RECORD])
            elif record:
                record(reply.content.config_records[wire.RECORD], earlier)
            else:
                whole(reply.content)
        return reply

    return intercept


def lose_in_round_2(partition: int, stage: str) -> Intercept:
    """Lose a client's answers of one exchange in the second round."""

    def intercept(node: int, reply: Message) -> Message | None:
        return lose(partition, stage)(node, reply) if reply.metadata.group_id == "2" else reply

    return intercept


def of(clients: int) -> dict[str, Any]:
    """The settings of a run that does without two of six clients, or one of four."""
    more = {"clients": 6, "secagg": "on(threshold=0.6)"} if clients == 6 else {}
    return {**SMALL, **more}


@cache
def reference(folder: Path, clients: int, *lost: int) -> list[bytes]:
    """The model of a run without some clients in its second round."""
    own = folder / f"{clients} without {lost}"
    run_in_process(own, both(*(lose_in_round_2(one, MASK) for one in lost)), **of(clients))
    return [array.tobytes() for array in weights(own)]


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("references")


@pytest.mark.parametrize("what", [*FROM_CLIENT, *ALL_OF_IT])
def test_a_server_does_without_a_hostile_client(
    tmp_path: Path, references: Path, what: str
) -> None:
    """Its model is that of all clients, or of the honest ones, to the bit."""
    stage, change = {**FROM_CLIENT, **ALL_OF_IT}[what]
    hostile = alter(stage, *((change,) if what in FROM_CLIENT else (None, change)))
    clients, lost = (6, [5]) if stage == AGREE else (4, [])  # or they would not have to agree
    intercept = both(hostile, *(lose_in_round_2(one, MASK) for one in lost))
    run_in_process(tmp_path, intercept, **of(clients))
    found = [array.tobytes() for array in weights(tmp_path)]
    possible = [lost, [*lost, 1]]
    assert found in [reference(references, clients, *without) for without in possible]
    said = [line["reason"] for line in lines(tmp_path, "retry")]
    said += [entry["reason"] for line in lines(tmp_path) for entry in line["refused"]]
    assert all(reason.isprintable() and len(reason) < 1000 for reason in said)


FALSE_VECTORS: dict[str, Callable[[bytes], bytes]] = {
    "random": same_length,
    "zeros": lambda vector: bytes(len(vector)),
    "reordered": lambda vector: rotate(8)(vector),
    "largest": lambda vector: np.full(len(vector) // 8, 2**63 - 1).tobytes(),
}


@pytest.mark.parametrize("what", [*FALSE_VECTORS, "replayed"])
def test_a_false_vector_is_noticed(tmp_path: Path, references: Path, what: str) -> None:
    """In every try, it ends the run with a sentence; the run resumes without the lie."""
    change = edit(MASK, FALSE_VECTORS[what]) if what in FALSE_VECTORS else replay
    with pytest.raises(FedmirageError, match="round 2: the sum holds numbers that 4 clients"):
        run_in_process(tmp_path, alter(MASK, change), **SMALL)
    assert len(lines(tmp_path)) == 1
    run_in_process(tmp_path, resume=str(tmp_path), **SMALL)
    assert [array.tobytes() for array in weights(tmp_path)] == reference(references, 4)


def test_there_are_sixty_of_them() -> None:
    assert len(FROM_SERVER) + len(FROM_CLIENT) + len(ALL_OF_IT) + len(FALSE_VECTORS) >= 60
