"""Numbers that a method says cannot be cost their sender the round."""

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message
from flwr.common import FitRes, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat

from fedmirage.common.wire.payload import LAYOUT, slices
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import SMALL, lines


def spoil(section: str, value: float) -> object:
    """Let client 1 send another first number in a section."""

    def intercept(node: int, reply: Message) -> Message:
        if node != node_id(1) or not reply.metadata.message_type.startswith("train"):
            return reply
        result: FitRes = compat.recorddict_to_fitres(reply.content, True)
        arrays = [np.array(one) for one in parameters_to_ndarrays(result.parameters)]
        cut = slices(str(result.metrics[LAYOUT]), len(arrays))[section]
        arrays[cut.start].flat[0] = value
        result.parameters = ndarrays_to_parameters(arrays)
        reply.content = compat.fitres_to_recorddict(result, False)
        return reply

    return intercept


@pytest.mark.parametrize(
    ("methods", "section"),
    [
        ("fednova", "effective_steps"),
        ("fedexp", "squared_norm"),
        ("fedgen(generator_steps=1)", "label-counts"),
    ],
)
def test_a_number_below_the_least_is_refused(tmp_path: Path, methods: str, section: str) -> None:
    settings = {**SMALL, "rounds": 1, "methods": methods, "model": "lenet-bn(hidden=8)"}
    run_in_process(tmp_path, spoil(section, -3.0), **settings)  # type: ignore[arg-type]
    (line,) = lines(tmp_path)
    (refused,) = line["refused"]
    reason = f"its section {section!r} holds -3, which is below 0"
    assert refused == {"partition": 1, "reason": reason}
    assert [client["partition"] for client in line["clients"]] == [0, 2, 3]


def test_zero_is_a_number_of_steps(tmp_path: Path) -> None:
    run_in_process(tmp_path, spoil("effective_steps", 0.0), **SMALL, methods="fednova")  # type: ignore[arg-type]
    assert all(not line["refused"] for line in lines(tmp_path))
