"""Secure rounds in one process: the real protocol and cryptography, without the network."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common import parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat

from fedmirage.client.app import make_app
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import local_models
from fedmirage.common.methods import METHODS
from fedmirage.common.secagg.keys import draw_mask, unpack
from fedmirage.common.secagg.protocol import ADVERTISE, AGREE, MASK, OPEN, RECORD, REFUSAL, SHARE
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.settings.config import configure
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.rounds import Rounds
from fedmirage.server.run import run
from fedmirage.testing.checks import check_secure
from tests.support.inprocess import InProcessGrid, node_id, run_in_process
from tests.support.pairs import BASE, BATCH_NORM, line
from tests.support.runs import KilledError, kill_in_round
from tests.support.secure_rounds import (
    both,
    exchange_long_term_keys,
    lose,
    spoil,
    stage_of,
)

SMALL = {**BASE, "eval_every": 1}


def lines(folder: Path, kind: str = "round") -> list[dict[str, Any]]:
    return [
        found
        for text in (folder / "results.jsonl").read_text().splitlines()
        if (found := json.loads(text))["kind"] == kind
    ]


def shared(folder: Path) -> list[np.ndarray]:
    return read_checkpoint(folder / "checkpoint.safetensors").shared


def close(one: list[np.ndarray], other: list[np.ndarray], within: float) -> bool:
    assert [array.dtype for array in one] == [array.dtype for array in other]
    return all(np.abs(a - b).max(initial=0) <= within for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("model", [BASE["model"], BATCH_NORM])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_plain_numbers(tmp_path: Path, name: str, model: str) -> None:
    check_secure(name, tmp_path, model)


def test_one_seed_gives_the_same_bits_again(tmp_path: Path) -> None:
    """Masks and keys differ from run to run, but what they hide does not.

    Numbers are multiples of the step before they are rounded.
    """
    for name in ("one", "two"):
        run_in_process(tmp_path / name, **SMALL, methods="scaffold", secagg="on")
    one, two = shared(tmp_path / "one"), shared(tmp_path / "two")
    assert [array.tobytes() for array in one] == [array.tobytes() for array in two]


def test_ten_rounds_follow_the_plain_curve(tmp_path: Path) -> None:
    settings = {"rounds": 10, "local_epochs": 1, "model": "mlp(hidden=32, layers=1)"}
    run_in_process(tmp_path / "plain", **settings)
    run_in_process(tmp_path / "secure", **settings, secagg="on")
    plain, secure = (
        [line["accuracy"] for line in lines(tmp_path / name)] for name in ("plain", "secure")
    )
    assert max(plain) > 0.5
    assert secure == pytest.approx(plain, abs=0.01)


def test_clients_of_very_unlike_size(tmp_path: Path) -> None:
    """Weights are in the vector: the plain weighted mean, not the uniform one."""
    settings = {**SMALL, "partition": "dirichlet(alpha=0.3, min_size=1)", "rounds": 1}
    for name, more in {
        "plain": {},
        "secure": {"secagg": "on"},
        "uniform": {"weighting": "uniform"},
    }.items():
        run_in_process(tmp_path / name, **settings, **more)
    assert close(shared(tmp_path / "secure"), shared(tmp_path / "plain"), 2e-5)
    assert not close(shared(tmp_path / "uniform"), shared(tmp_path / "plain"), 1e-4)
    run_in_process(tmp_path / "both", **settings, secagg="on", weighting="uniform")
    assert close(shared(tmp_path / "both"), shared(tmp_path / "uniform"), 1e-6)


def test_vhl_hands_its_set_out_once(tmp_path: Path) -> None:
    """One reply stands for all: each of them counts as holding the set from then on."""
    run_in_process(tmp_path, **{**SMALL, "rounds": 2, "methods": line("vhl"), "secagg": "on"})
    first, second = (found["bytes_down"] for found in lines(tmp_path))
    run_in_process(tmp_path / "plain", **{**SMALL, "rounds": 2, "methods": line("vhl")})
    with_set, without = (found["bytes_down"] for found in lines(tmp_path / "plain"))
    assert first - second == with_set - without > 0


# What the server gets to see


def test_nothing_of_a_single_client_can_be_read(tmp_path: Path) -> None:
    """All that the server receives from one client in a round; the same update is found in a plain
    run."""
    heard: dict[str, list[Message]] = {"plain": [], "secure": []}
    for name, secagg in {"plain": "off", "secure": "on"}.items():

        def listen(node: int, reply: Message, kept: list[Message] = heard[name]) -> Message:
            if node == node_id(1):
                kept.append(deepcopy(reply))  # the server takes messages apart
            return reply

        run_in_process(
            tmp_path / name,
            listen,
            **{**SMALL, "rounds": 1, "model": "mlp(hidden=64)", "keep_models": "all"},
            secagg=secagg,
        )
    plain = compat.recorddict_to_fitres(heard["plain"][1].content, True)
    arrays = parameters_to_ndarrays(plain.parameters)
    token = read_checkpoint(tmp_path / "plain" / "checkpoint.safetensors").token
    _, trained = local_models(tmp_path / "plain" / "memory" / token, 1)[1]
    assert [array.tobytes() for array in arrays] == [
        array.tobytes() for array in trained
    ]  # a plain run shows all
    update = np.concatenate([array.ravel() for array in arrays])
    assert plain.num_examples == 6
    assert "term.task" in plain.metrics

    properties, *protocol = heard["secure"]
    assert set(properties.content.config_records["getpropertiesres.properties"]) == {
        "partition",
        "own",
        "fingerprint",
        "shape",
        "task",
        "classes",
    }
    assert list(map(stage_of, protocol)) == [
        ADVERTISE,
        SHARE,
        MASK,
        OPEN,
    ]
    for message in protocol:
        assert not message.content.array_records
        assert not message.content.metric_records
        assert list(message.content.config_records) == [RECORD]
    width = SecAggOn().width(4)
    vector = unpack(protocol[2].content.config_records[RECORD]["vector"], width)  # type: ignore[arg-type]
    masked = vector[-len(update) :] / 2.0 ** (8 * width)
    assert abs(np.corrcoef(masked, update)[0, 1]) < 5 / np.sqrt(len(update))
    assert abs(masked.mean() - 0.5) < 5 / np.sqrt(12 * len(masked))  # uniform below the modulus
    assert abs(masked.std() - np.sqrt(1 / 12)) < 0.02
    (summary,) = lines(tmp_path / "secure")
    assert summary["clients"] == [{"partition": partition} for partition in range(4)]


# Losses


def test_a_client_lost_while_training_is_left_out(tmp_path: Path) -> None:
    """The others' weighted mean, as in a plain round that lost the same client."""
    settings = {**SMALL, "rounds": 1, "round_timeout": 0.5}
    run_in_process(tmp_path / "secure", lose(2, MASK), **settings, secagg="on")
    seen: list[int] = []

    def silent(node: int, reply: Message) -> Message | None:
        seen.append(node)
        return None if node == node_id(2) and seen.count(node) > 1 else reply

    run_in_process(tmp_path / "plain", silent, **settings)
    (line,) = lines(tmp_path / "secure")
    assert [client["partition"] for client in line["clients"]] == [0, 1, 3]
    assert line["refused"] == [{"partition": 2, "reason": "no answer within 0 s (round-timeout)"}]
    assert close(shared(tmp_path / "secure"), shared(tmp_path / "plain"), 2e-5)


def test_a_client_lost_while_sharing_keys_means_another_try(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 1, "round_timeout": 0.5, "secagg": "on"}
    run_in_process(tmp_path / "early", lose(2, SHARE), **settings)
    run_in_process(tmp_path / "later", lose(2, MASK), **settings)
    (retry,) = lines(tmp_path / "early", "retry")
    assert "left with 3 of 4 clients while sharing keys, 4 are needed" in retry["reason"]
    assert "client 2: no answer" in retry["reason"]
    assert [client["partition"] for client in lines(tmp_path / "early")[0]["clients"]] == [0, 1, 3]
    assert close(shared(tmp_path / "early"), shared(tmp_path / "later"), 0)


def test_a_client_lost_before_the_sum_is_opened_changes_nothing(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 1, "round_timeout": 0.5, "secagg": "on"}
    run_in_process(tmp_path / "lost", lose(2, OPEN), **settings)
    run_in_process(tmp_path / "whole", **settings)
    assert [client["partition"] for client in lines(tmp_path / "lost")[0]["clients"]] == [
        0,
        1,
        2,
        3,
    ]
    assert close(shared(tmp_path / "lost"), shared(tmp_path / "whole"), 0)


def test_a_client_without_keys_is_not_in_the_try(tmp_path: Path) -> None:
    silent = lose(2, ADVERTISE, times=9)
    run_in_process(tmp_path, silent, **{**SMALL, "round_timeout": 0.3}, retries=0, secagg="on")
    assert [[client["partition"] for client in line["clients"]] for line in lines(tmp_path)] == [
        [0, 1, 3]
    ] * 2
    assert lines(tmp_path)[1]["refused"][0]["partition"] == 2


def test_tries_end(tmp_path: Path) -> None:
    two = both(lose(0, ADVERTISE, times=9), lose(1, ADVERTISE, times=9))
    with pytest.raises(
        FedmirageError,
        match=r"2 clients are connected, .* at least 3\. clients 0, 1: no answer .* tried 2 times",
    ):
        run_in_process(tmp_path, two, **{**SMALL, "round_timeout": 0.3}, retries=1, secagg="on")
    assert lines(tmp_path, "summary")[0]["status"] == "failed"


def test_too_many_lost_while_training(tmp_path: Path) -> None:
    two = both(lose(0, MASK), lose(1, MASK))
    with pytest.raises(
        FedmirageError, match=r"left with 2 of 4 clients while training, 3 are needed"
    ):
        run_in_process(tmp_path, two, **{**SMALL, "round_timeout": 0.3}, retries=0, secagg="on")


@pytest.mark.parametrize(("clients", "lost"), [(5, 1), (10, 3)])
@pytest.mark.parametrize("stage", [ADVERTISE, MASK, OPEN])
def test_as_many_may_be_lost_as_the_table_says(
    tmp_path: Path, clients: int, lost: int, stage: str
) -> None:
    settings = {**SMALL, "dataset": "digits(limit=200, size=8)", "clients": clients, "rounds": 1}
    gone = both(*(lose(who, stage) for who in range(lost)))
    run_in_process(tmp_path, gone, **settings, round_timeout=0.3, secagg="on", retries=0)
    left = clients if stage == OPEN else clients - lost
    assert lines(tmp_path)[0]["secagg"]["clients"] == left


def test_nobody_takes_the_place_of_a_missing_client(tmp_path: Path) -> None:
    """Clients repeat the draw, so a substitute would be refused; a plain round has one."""
    settings = {**SMALL, "dataset": "digits(limit=200, size=8)", "clients": 8, "rounds": 1}
    settings |= {"participation": 0.5, "round_timeout": 0.3, "seed": 1}
    run_in_process(tmp_path / "whole", **settings, secagg="on")
    drawn = [client["partition"] for client in lines(tmp_path / "whole")[0]["clients"]]
    assert len(drawn) == 4
    gone = lose(drawn[0], SHARE, times=9)
    run_in_process(tmp_path / "gone", gone, **settings, secagg="on")
    assert [one["partition"] for one in lines(tmp_path / "gone")[0]["clients"]] == drawn[1:]


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 3, "methods": "scaffold", "secagg": "on"}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(2), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert [array.tobytes() for array in shared(tmp_path / "whole")] == [
        array.tobytes() for array in shared(tmp_path / "cut")
    ]


def kill_before_checkpoint(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The server dies when it has opened the sum of a round, and before it has saved it."""
    save = Rounds.save

    def die(self: Rounds, done: int, *models: list[np.ndarray]) -> None:
        if done == number:
            monkeypatch.setattr(Rounds, "save", save)
            raise KilledError
        save(self, done, *models)

    monkeypatch.setattr(Rounds, "save", die)


def test_a_round_that_was_opened_is_repeated_with_the_same_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum is the one that the server has seen before."""
    settings = {**SMALL, "rounds": 3, "methods": "scaffold", "secagg": "on"}
    run_in_process(tmp_path / "whole", **settings)
    kill_before_checkpoint(monkeypatch, 2)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert close(shared(tmp_path / "whole"), shared(tmp_path / "cut"), 0)


@pytest.mark.parametrize("stage", [ADVERTISE, MASK])
def test_a_round_that_was_opened_is_not_repeated_without_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The sentence says what to do; nothing was changed, so the same clients can still go on."""
    settings = {**SMALL, "secagg": "on", "retries": 2, "round_timeout": 0.3}
    kill_before_checkpoint(monkeypatch, 2)
    with pytest.raises(KilledError):
        run_in_process(tmp_path, **settings)
    resumed = {**settings, "resume": str(tmp_path)}
    with pytest.raises(FedmirageError, match="clients 0 to 2: this client has opened round 2"):
        run_in_process(tmp_path, lose(3, stage, times=9), **resumed)
    run_in_process(tmp_path, **resumed)
    assert lines(tmp_path)[-1]["round"] == 2


def test_a_round_that_was_opened_for_some_is_repeated_with_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has forgotten who they were, and the clients tell."""
    settings = {**SMALL, "secagg": "on", "round_timeout": 0.3}
    run_in_process(tmp_path / "whole", lose(1, MASK, times=2), **settings)
    kill_before_checkpoint(monkeypatch, 2)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", lose(1, MASK, times=2), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert [one["partition"] for one in lines(tmp_path / "cut")[-1]["clients"]] == [0, 2, 3]
    assert close(shared(tmp_path / "whole"), shared(tmp_path / "cut"), 0)


def test_a_command_may_be_repeated(tmp_path: Path) -> None:
    """Runtimes of one host keep the notes in the folder of the run; in one folder, they would be a
    second answer."""
    for name in ("one", "two"):
        run_in_process(tmp_path / name, **SMALL, secagg="on")
    assert close(shared(tmp_path / "one"), shared(tmp_path / "two"), 0)
    config = configure({**SMALL, "secagg": "on", "retries": 0, "out": str(tmp_path / "three")})
    with pytest.raises(FedmirageError, match="already answered round 1 for this model"):
        run(InProcessGrid(make_app(config, tmp_path / "one" / "memory"), 4), config)


def test_a_try_that_could_not_be_opened_is_repeated(tmp_path: Path) -> None:
    """Two of four answers to the last request are lost: some shares were sent, of the same sum."""
    settings = {**SMALL, "rounds": 1, "round_timeout": 0.3, "secagg": "on"}
    run_in_process(tmp_path / "lost", both(lose(1, OPEN), lose(2, OPEN)), **settings)
    run_in_process(tmp_path / "whole", **settings)
    assert len(lines(tmp_path / "lost", "retry")) == 1
    assert close(shared(tmp_path / "lost"), shared(tmp_path / "whole"), 0)


def test_a_client_lost_while_the_others_agree_changes_nothing(tmp_path: Path) -> None:
    """Client 4 of six is lost in training; client 2 says nothing when asked who is left."""
    settings = {**SMALL, "rounds": 1, "clients": 6, "round_timeout": 0.3}
    settings["secagg"] = "on(threshold=0.6)"  # four of six
    run_in_process(tmp_path / "one", lose(4, MASK), **settings)
    run_in_process(tmp_path / "two", both(lose(4, MASK), lose(2, AGREE, times=9)), **settings)
    assert close(shared(tmp_path / "one"), shared(tmp_path / "two"), 0)
    left = [client["partition"] for client in lines(tmp_path / "two")[0]["clients"]]
    assert left == [0, 1, 2, 3, 5]


def test_a_client_out_of_range_says_so_and_sits_out(tmp_path: Path) -> None:
    """Partition 3 has more examples than the others; max_examples lies between."""
    run_in_process(
        tmp_path,
        **{**SMALL, "partition": "dirichlet(alpha=1.0, min_size=1)", "rounds": 1},
        secagg="on(max_examples=17)",
    )
    (line,) = lines(tmp_path)
    assert len(line["clients"]) == 3
    (refused,) = line["refused"]
    assert (
        refused["reason"]
        == "it has more examples than secagg's max_examples=17; raise max_examples"
    )


# Peers that do not fit


@pytest.mark.parametrize("vector", [b"", b"noise", bytes(10**6), 7, "text", [1, 2]])
def test_a_malformed_vector_is_refused(tmp_path: Path, vector: Any) -> None:
    run_in_process(tmp_path, spoil(1, MASK, lambda _: vector), **SMALL, secagg="on")
    for found in lines(tmp_path):
        assert [client["partition"] for client in found["clients"]] == [0, 2, 3]
        (refused,) = found["refused"]
        assert "its masked numbers are malformed: " in refused["reason"]


def test_what_an_exception_says_stays_with_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("record 17 of the patients is odd")

    monkeypatch.setattr("fedmirage.client.client.train", fails)
    with pytest.raises(
        FedmirageError, match="its code raised an exception; its own log says why"
    ) as failure:
        run_in_process(tmp_path, **SMALL, retries=0, secagg="on")
    assert "patients" not in str(failure.value)
    assert "patients" not in (tmp_path / "results.jsonl").read_text()


def test_masks_that_do_not_cancel_are_noticed(tmp_path: Path) -> None:
    """A vector of its own noise is well-formed; the sum shows that it is not what the masks belong
    to."""

    def noise(vector: bytes) -> bytes:
        return draw_mask(b"other", len(vector) // 8).tobytes()

    with pytest.raises(FedmirageError, match="holds numbers that 4 clients cannot have sent"):
        run_in_process(tmp_path, spoil(1, MASK, noise), **SMALL, retries=0, secagg="on")


def test_a_client_of_another_version_is_left_out(tmp_path: Path) -> None:
    def without(node: int, reply: Message) -> Message:
        if node == node_id(1) and stage_of(reply) == ADVERTISE:
            del reply.content.config_records[RECORD]["version"]
        return reply

    run_in_process(tmp_path, without, **SMALL, retries=0, secagg="on")
    (refused,) = lines(tmp_path)[0]["refused"]
    assert "it does not speak 'fedmirage-secagg-4'" in refused["reason"]


def test_clients_that_know_each_other_give_the_same_bits(tmp_path: Path) -> None:
    """The server passes their signatures on, and the others' keys are checked; a client without a
    key of its own is named."""
    settings = {**SMALL, "rounds": 1, "retries": 0, "secagg": "on"}
    run_in_process(tmp_path / "strangers", **settings)
    (tmp_path / "keys").mkdir()
    keys = exchange_long_term_keys(tmp_path / "keys", 4)
    for name in ("known", "refused"):
        config = configure({**settings, "out": str(tmp_path / name)})
        grid = InProcessGrid(make_app(config, tmp_path / name / "memory"), 4)
        for who in range(4):
            grid.contexts[node_id(who)].node_config.update(keys[who])  # type: ignore[arg-type]
        if name == "known":
            run(grid, config)
            continue
        del grid.contexts[node_id(2)].node_config["secagg-key"]
        with pytest.raises(FedmirageError, match=r"client 2 are not signed with the key in 2\.pub"):
            run(grid, config)
    assert close(shared(tmp_path / "known"), shared(tmp_path / "strangers"), 0)


def test_a_plain_server_gets_nothing(tmp_path: Path) -> None:
    """The server runs without secagg, its clients with it: as if somebody had changed the server
    alone."""
    secure = configure({**SMALL, "out": str(tmp_path), "secagg": "on"})
    plain = configure({**SMALL, "out": str(tmp_path), "retries": 0})
    heard: list[Message] = []

    def listen(_: int, reply: Message) -> Message:
        heard.append(reply)
        return reply

    with pytest.raises(FedmirageError, match="its message is malformed"):
        run(InProcessGrid(make_app(secure, tmp_path / "memory"), 4, listen), plain)
    refusals = [
        reply.content.config_records[REFUSAL]["reason"]
        for reply in heard
        if REFUSAL in reply.content.config_records
    ]
    assert len(refusals) == 4
    assert all("asks for a plain update" in str(reason) for reason in refusals)
    assert not any(record for reply in heard for record in reply.content.array_records.values())
