"""What a round costs the server's memory: in models, and per client that is not drawn."""

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message
from flwr.common import Parameters

from experiments.bench.light_node import answer
from fedmirage.common.data.loading import load
from fedmirage.common.run import appearance
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import size
from fedmirage.runtimes.inprocess import LocalGrid
from fedmirage.server.messages.plain import FitOutcome, PlainFit
from fedmirage.server.run import run

CLIENTS = 4
LARGE = {"model": "mlp(hidden=1000, layers=2)", "clients": CLIENTS, "rounds": 2, "eval_every": 9}


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def run_light(out: Path, **settings: Any) -> None:
    """Run with clients that send back the weights that came, in memory of their own."""
    usual = {"dataset": "digits", "partition": "draw(per_client=20)", "server_threads": 1}
    config = configure({**usual, **settings, "out": str(out)})
    facts: dict[str, Any] = {**appearance(load(config.dataset))}

    def echo(message: Message, context: Context) -> Message:
        told = {**facts, "partition": int(context.node_config["partition-id"])}
        reply = answer(message, context, told)
        for record in reply.content.array_records.values():
            for array in record.values():
                array.data = bytes(bytearray(array.data))
        return reply

    run(LocalGrid(echo, config.clients), config)  # type: ignore[arg-type]


@pytest.mark.parametrize("reply_memory", [0, 8])
def test_a_round_takes_a_model_per_client_and_three(
    reply_memory: int, traced: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three are the one that is sent, the mean, and the one that is scored, which is torch's
    and not seen here. With replies in files, one is in memory while it is written, and twice."""
    found: list[float] = []
    fit = PlainFit.fit

    def measure(self: PlainFit, number: int, sent: Parameters, without: Any) -> FitOutcome:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0] - size(sent)
        outcome = fit(self, number, sent, without)
        found.append((tracemalloc.get_traced_memory()[1] - before) / size(sent))
        return outcome

    monkeypatch.setattr(PlainFit, "fit", measure)
    run_light(tmp_path, **LARGE, reply_memory=reply_memory)
    replies = 1 + 2 if reply_memory else CLIENTS
    assert max(found) < replies + 2 + 0.5  # what is not a model, and not freed yet


def test_a_client_that_is_never_drawn_costs_less_than_a_kilobyte(
    traced: None, tmp_path: Path
) -> None:
    few, many, peaks = 100, 20_000, []
    run_light(tmp_path / "warm", clients=few, participation=0.1, rounds=1)
    for clients in (few, many):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        run_light(tmp_path / str(clients), clients=clients, participation=10 / clients, rounds=2)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    assert (peaks[1] - peaks[0]) / (many - few) < 1000
    (small, large) = (
        (tmp_path / str(clients) / "checkpoint.safetensors") for clients in (few, many)
    )
    assert abs(large.stat().st_size - small.stat().st_size) < 1000
