"""FedLGD on the server: a round by hand, who gets the images, when they stay as they are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.common import FitRes, ndarrays_to_parameters, parameters_to_ndarrays
from torch import nn

from fedmirage.common.methods.fedlgd import GLOBAL, FedLgd
from fedmirage.common.methods.fedlgd.images import decode
from fedmirage.common.models.base import Model
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import LAYOUT, unpack
from fedmirage.server.methods.fedlgd import FedLgdServer
from fedmirage.server.methods.fedlgd import server as half
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.context import ServerContext
from tests.support.facts import make_facts
from tests.support.hand import Everybody
from tests.support.rules import reply
from tests.support.strategies import Client

START = np.array([[0, 0], [3, 4]], np.float32).reshape(2, 1, 1, 2)
# Two clients, whose mean is [[-0.5, 0], [0.5, 0]].
MOVED = ([-1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0])


def make_server(
    notes: list[str] | None = None, lr_decay: float = 1.0, **params: Any
) -> FedLgdServer:
    """Two pixels to two classes, all weights 0; learning rate 0.5; G is x_0 and x_1."""
    model = Model(nn.Sequential(nn.Flatten()), nn.Linear(2, 2, bias=False), 2)
    nn.init.zeros_(model.classifier.weight)
    values = {
        "global_steps": 1,
        "global_per_class": 1,
        "precision": "single",
        "min_participants": 2,
        **params,
    }
    line = ", ".join(f"{key}={value!r}" for key, value in values.items())
    settings = {"lr": 0.5, "lr_decay": lr_decay, "clients": 2}
    config = configure({"methods": f"fedlgd({line})", **settings})
    facts = make_facts(config, model, shape=(1, 1, 2))
    texts = [] if notes is None else notes
    context = ServerContext(
        facts,
        SimpleNamespace(model=model),  # type: ignore[arg-type]
        note=lambda number, text, progress=False: texts.append(text),
    )
    average = Average([np.zeros((2, 2), np.float32)], weighting="uniform")
    server = FedLgdServer(average, config.method_list[0], context)  # type: ignore[arg-type]
    server.state.images = [START]
    return server


def answer(values: list[float]) -> FitRes:
    found = reply(values, examples=1)
    found.parameters = ndarrays_to_parameters([np.array(values, np.float32).reshape(2, 2)])
    return found


def do_round(
    server: FedLgdServer, number: int, *models: list[float], clients: tuple[int, ...] = (0, 1)
) -> tuple[list[bool], dict[str, Any]]:
    """Who was sent the images, and the metrics of the round."""
    sent = ndarrays_to_parameters([np.zeros((2, 2), np.float32)])
    asked = server.configure_fit(number, sent, Everybody(2, clients))  # type: ignore[arg-type]
    sections = [
        unpack(parameters_to_ndarrays(ins.parameters), str(ins.config[LAYOUT])).get(GLOBAL, [])
        for _, ins in asked
    ]
    replies = [
        (Client(client), answer(model)) for client, model in zip(clients, models, strict=False)
    ]
    _, metrics = server.aggregate_fit(number, replies, [])  # type: ignore[arg-type]
    return [len(section) > 1 for section in sections], metrics


def test_a_round_by_hand() -> None:
    """The average is [[-0.5, 0], [0.5, 0]], and so g = (0 - average) / 0.5 = [[1, 0], [-1, 0]].

    From there on it is the step that test_matching.py works out: the pixels move by (0.256, -0.192)
    and its negative, and the distance falls from 0.8 to 0.607.
    """
    server = make_server()
    _, metrics = do_round(server, 1, *MOVED)
    expected = [[-0.256, 0.192], [3.256, 3.808]]
    np.testing.assert_allclose(server.decoded().view(2, 2), expected, atol=1e-5)
    assert metrics["fedlgd.distance_before"] == pytest.approx(0.8, abs=1e-5)
    assert metrics["fedlgd.distance"] == pytest.approx(0.6066, abs=1e-3)
    assert metrics["fedlgd.rows"] == 2


def test_the_learning_rate_is_that_of_the_round() -> None:
    """Here it halves in every round, and so the same step means twice the gradient."""
    server = make_server(lr_decay=0.5)
    server.broadcast = [np.zeros((2, 2), np.float32)]
    average = ndarrays_to_parameters([np.full((2, 2), -1, np.float32)])
    for number, expected in ((1, 2.0), (2, 4.0), (3, 8.0)):
        (gradient,) = server.read_gradient(number, average).values()
        assert gradient.unique().tolist() == [expected]


def test_who_gets_the_images() -> None:
    """Rounds 1 and 3 are distillation rounds.

    Client 1 is first drawn in round 5, after the last of them, and gets the current images.
    """
    server = make_server(gap=2, times=1, min_participants=1)
    sent = [
        do_round(server, number, *MOVED, clients=clients)[0]
        for number, clients in enumerate([(0,), (0,), (0,), (0,), (0, 1), (0, 1)], start=1)
    ]
    assert sent == [[True], [True], [False], [True], [False, True], [False, False]]


def test_images_are_used_from_a_given_round() -> None:
    server = make_server(use_global_from=2)
    assert do_round(server, 1, *MOVED)[0] == [False, False]
    assert do_round(server, 2, *MOVED)[0] == [True, True]


@pytest.mark.parametrize("precision", ["half", "byte", "single"])
def test_both_sides_use_what_is_decoded(precision: str) -> None:
    """The server's next matching starts from the values that clients have, not from its own."""
    server = make_server(precision=precision, global_steps=2)
    do_round(server, 1, *MOVED)
    asked = server.configure_fit(
        2,
        ndarrays_to_parameters([np.zeros((2, 2), np.float32)]),
        Everybody(2, None),  # type: ignore[arg-type]
    )
    section = unpack(
        parameters_to_ndarrays(asked[0][1].parameters), str(asked[0][1].config[LAYOUT])
    )
    _, *coded, labels = section[GLOBAL]
    assert decode(coded).tobytes() == server.decoded().numpy().tobytes()
    assert labels.tolist() == [0, 1]


def test_too_few_clients_leave_the_images_as_they_are() -> None:
    notes: list[str] = []
    server = make_server(notes)
    _, metrics = do_round(server, 1, MOVED[0])
    assert torch.equal(server.decoded(), torch.tensor(START))
    assert "fedlgd.distance" not in metrics
    assert notes == [
        "fedlgd leaves its images as they are: to match an average of 1 clients could reveal their"
        " data (min_participants=2)"
    ]


def test_an_average_that_did_not_move_is_not_matched() -> None:
    notes: list[str] = []
    server = make_server(notes)
    _, metrics = do_round(server, 1, [0.0] * 4, [0.0] * 4)
    assert torch.equal(server.decoded(), torch.tensor(START))
    assert "fedlgd.distance" not in metrics
    assert "the average did not move" in notes[0]


def test_a_row_that_did_not_move_is_not_counted() -> None:
    server = make_server()
    _, metrics = do_round(server, 1, [-1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0])
    assert metrics["fedlgd.rows"] == 1
    assert metrics["fedlgd.distance_before"] == pytest.approx(0.4, abs=1e-5)


def test_a_round_that_nobody_finished(tmp_path: Path) -> None:
    server = make_server(min_participants=1)
    _, metrics = do_round(server, 1)
    assert metrics == {}
    assert torch.equal(server.decoded(), torch.tensor(START))


def test_undone_steps_are_noted() -> None:
    """x_1 - x_0 explodes with this learning rate, beyond what half precision can hold."""
    notes: list[str] = []
    server = make_server(notes, pixel_lr=1e6, global_steps=60)
    do_round(server, 1, *MOVED)
    assert bool(server.decoded().isfinite().all())
    assert "fedlgd undid" in notes[0]
    assert "halved pixel_lr=1e+06 each time" in notes[0]


def test_the_controls() -> None:
    """Noise is never learned; permuted labels reach clients only."""
    noise = make_server(source="noise")
    _, metrics = do_round(noise, 1, *MOVED)
    assert torch.equal(noise.decoded(), torch.tensor(START))
    assert metrics == {}
    permuted, plain = (
        make_server(source=source, global_per_class=8, gap=1) for source in ("permuted", "matched")
    )
    for server in (permuted, plain):
        server.state.images = []
        do_round(server, 1, *MOVED)
    assert torch.equal(permuted.decoded(), plain.decoded())
    given = permuted.labels_for_clients()
    assert given.tolist() != plain.labels_for_clients().tolist() == [0] * 8 + [1] * 8
    assert sorted(given.tolist()) == [0] * 8 + [1] * 8
    assert (permuted.labels_for_clients() == given).all()


def test_progress_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "EVERY", 0.0)
    notes: list[str] = []
    do_round(make_server(notes, global_steps=2), 1, *MOVED)
    assert "fedlgd learns its images: 1/2, distance 0.8 to" in notes[0]


def test_the_schedule_is_that_of_the_code() -> None:
    """Counted from 0, the code distils in rounds 0, 5, ..., 50, and refreshes V from 5 on."""
    params = FedLgd()
    distils = [number for number in range(1, 100) if params.distils(number)]
    assert [number - 1 for number in distils] == list(range(0, 51, 5))
    assert [number for number in distils if params.refreshes(number)] == distils[1:]
    late = FedLgd(distil_from=51, times=1, gap=10)
    assert [number for number in range(1, 100) if late.distils(number)] == [51, 61]
    once = FedLgd(times=0)
    assert [number for number in range(1, 100) if once.distils(number)] == [1]
