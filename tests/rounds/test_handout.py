"""Both halves of a hand-out, while the set changes, a disk is lost and a node fails."""

import shutil
from pathlib import Path

import numpy as np
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays

from fedmirage.client.handout import receive
from fedmirage.common.errors import FedmirageError
from fedmirage.common.memory import Memory
from fedmirage.common.wire.payload import LAYOUT, Arrays, unpack
from fedmirage.server.strategy.handout import HandOut, HandOutState
from tests.support.strategies import Client, reply


def version(round_number: int) -> Arrays:
    """A new set every three rounds: 1 to 3, 4 to 6, 7 to 9."""
    return [np.full((2, 3), (round_number - 1) // 3, np.uint8), np.arange(2, dtype=np.int16)]


def one_round(
    folder: Path, handout: HandOut, number: int, down: set[int]
) -> tuple[list[int], list[str]]:
    """Return the clients that were sent arrays, and the sentences of those that failed."""
    message = FitIns(ndarrays_to_parameters([np.zeros(1, np.float32)]), {LAYOUT: "shared:1"})
    asked = handout.attach([(Client(client), message) for client in range(3)], version(number))  # type: ignore[misc]
    sent, answers, said = [], [], []
    for proxy, ins in asked:
        client = int(proxy.cid)
        section = unpack(parameters_to_ndarrays(ins.parameters), str(ins.config[LAYOUT]))["set"]
        sent += [client] if len(section) > 1 else []
        if client in down:
            continue
        memory = Memory(folder / str(client), number)
        try:
            arrays = receive(section, memory, "test.set", "the set")
        except FedmirageError as error:
            said.append(str(error))
            continue
        assert all(map(np.array_equal, arrays, version(number)))
        memory.close()
        answers.append((proxy, reply([0], 1)))
    handout.learn(answers)
    return sent, said


def test_every_client_works_with_the_right_version_and_gets_it_no_more_often_than_needed(
    tmp_path: Path,
) -> None:
    """Client 1 is down in round 3, and client 2 loses its disk after round 7."""
    handout = HandOut("set", HandOutState())
    sent, said = {}, {}
    for number in range(1, 10):
        sent[number], said[number] = one_round(
            tmp_path, handout, number, {1} if number == 3 else set()
        )
        if number == 7:
            shutil.rmtree(tmp_path / "2")
    everybody = [0, 1, 2]
    assert [sent[number] for number in (1, 2, 3)] == [everybody, [], []]
    assert [sent[number] for number in (4, 5, 6)] == [everybody, [], []]
    assert [sent[number] for number in (7, 8, 9)] == [everybody, [], [2]]
    assert [number for number in said if said[number]] == [8]
    assert "does not hold the set any more" in said[8][0]
