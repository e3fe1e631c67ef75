"""The server's half of `--dp` around an average of a few numbers, and in whole runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.common import (
    Code,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.compat.common import recorddict_compat as compat

from fedmirage.common.dp.settings import CentralDp, LocalDp
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.server.record.shown import describe_scores
from fedmirage.server.strategy.average import Average, participants
from fedmirage.server.strategy.budget import epsilon
from fedmirage.server.strategy.context import StandAlone
from fedmirage.server.strategy.dp import CentralNoise, LocalBudget
from fedmirage.server.strategy.wrapper import (
    StrategyWrapper,
    chain,
    load_state,
    save_state,
)
from fedmirage.show.progress import summary_table
from tests.support.inprocess import node_id, run_in_process
from tests.support.rules import initial
from tests.support.runs import (
    SMALL,
    KilledError,
    assert_same_bits,
    kill_in_round,
    lines,
    weights,
    without_times,
)
from tests.support.strategies import Client

HUGE = "clip=1e9, noise=0"
STILL = {
    **SMALL,
    "rounds": 1,
    "lr": 1e-30,
}  # no client moves, so that the model moves by noise only


class Here:
    """A client manager that is told which clients are present, and which of them are drawn."""

    def __init__(self, present: int, drawn: int) -> None:
        self.present, self.drawn = present, drawn

    def num_available(self) -> int:
        return self.present

    def all(self) -> dict[str, Client]:
        return {str(number): Client(number) for number in range(self.present)}

    def sample(self, num_clients: int, min_num_clients: int | None = None) -> list[Client]:
        return [Client(number) for number in range(self.drawn)]


def reply(values: Any, examples: int = 1, **metrics: float) -> FitRes:
    parameters = ndarrays_to_parameters([np.array(values, np.float32)])
    return FitRes(Status(Code.OK, ""), parameters, examples, {"layout": "shared:1", **metrics})


def central(
    size: int, clip: float, noise: float, start: float = 0, context: StandAlone | None = None
) -> CentralNoise:
    """The strategy after it has sent `start` to all of two clients."""
    model = [np.full(size, start, np.float32)]
    strategy = CentralNoise(
        Average(model, weighting="uniform"), CentralDp(clip=clip, noise=noise), context
    )
    strategy.configure_fit(1, ndarrays_to_parameters(model), Here(2, 2))
    return strategy


def local(context: StandAlone | None = None) -> LocalBudget:
    return LocalBudget(Average([np.zeros(1, np.float32)]), LocalDp(clip=1, noise=2), context)


def ask(
    strategy: StrategyWrapper[Any], present: int, drawn: int, number: int = 1, token: str = "a"
) -> None:
    average = list(chain(strategy))[-1].inner
    assert isinstance(average, Average)
    average.on_fit_config_fn = lambda _: {"token": token}
    strategy.configure_fit(
        number, ndarrays_to_parameters([np.zeros(1, np.float32)]), Here(present, drawn)
    )


def aggregate(
    strategy: StrategyWrapper[Any], *replies: FitRes
) -> tuple[np.ndarray | None, dict[str, Any]]:
    aggregated, metrics = strategy.aggregate_fit(
        1, [(Client(number), one) for number, one in enumerate(replies)], []
    )
    return (
        parameters_to_ndarrays(aggregated)[0] if isinstance(aggregated, Parameters) else None
    ), metrics


# Around an average


def test_one_round_by_hand() -> None:
    """Clients with 1 and 9 examples have the updates (0.6, 0.8) and (0, 0.5), one of them clipped.

    The mean is (0.3, 0.65), to which noise=0 adds nothing. One release with noise 2 has the
    multiplier 1, since the sensitivity is twice the clip.
    """
    replies = reply([0.6, 0.8], 1, **{"dp.clipped": 1}), reply([0, 0.5], 9, **{"dp.clipped": 0})
    array, metrics = aggregate(central(2, 1.0, 0.0), *replies)
    np.testing.assert_allclose(array, [0.3, 0.65], rtol=1e-6)
    assert metrics["dp.clipped"] == 0.5
    _, metrics = aggregate(central(2, 1.0, 2.0), *replies)
    assert metrics["dp.epsilon"] == pytest.approx(4.377, abs=1e-3)


def test_the_noise_on_the_average_is_that_of_the_sum_over_those_who_trained() -> None:
    """Three clients trained and one did not: 2 * 1.5 / 3 = 1 on each of 300,000 numbers."""
    size = 300_000
    array, _ = aggregate(
        central(size, 1.5, 2.0, start=4),
        *[reply(np.full(size, 4)) for _ in range(3)],
        reply(np.zeros(size), 0),
    )
    assert array is not None
    assert array.dtype == np.float32
    assert array.mean() == pytest.approx(4, abs=6 / size**0.5)
    assert array.std() == pytest.approx(1, rel=0.01)


def test_one_reply_of_a_secure_sum_stands_for_many() -> None:
    secure = reply(np.zeros(300_000), 70, participants=10)
    assert participants([(Client(0), secure)]) == 10
    array, _ = aggregate(central(300_000, 1.0, 5.0), secure)
    assert array is not None
    assert array.std() == pytest.approx(0.5, rel=0.01)


def test_a_round_in_which_nobody_trained_costs_nothing() -> None:
    strategy = central(2, 1.0, 1.0)
    array, metrics = aggregate(strategy, reply([1, 2], 0))
    assert array is None
    assert (metrics["dp.epsilon"], strategy.ledger.entries) == (0.0, [])


def test_draws_are_counted_as_they_were(tmp_path: Path) -> None:
    """Two of five clients are drawn, and once, when only four are present, two of four."""
    strategy = central(1, 1.0, 2.0, context=StandAlone(folder=tmp_path))
    for present in (5, 4, 5):
        ask(strategy, present, 2)
        ask(strategy, present, 2)  # tried again: nothing was released before
        _, metrics = aggregate(strategy, reply([0]), reply([0]))
    assert metrics["dp.epsilon"] == epsilon(1.0, {(2, 5): 2, (2, 4): 1}, 1e-5)


def test_crashes_between_release_and_checkpoint_are_counted(tmp_path: Path) -> None:
    """The strategy is built anew from a checkpoint that was written before the releases."""
    before = save_state(central(1, 1.0, 2.0, context=StandAlone(folder=tmp_path)))
    for crash in range(1, 5):
        strategy = central(1, 1.0, 2.0, context=StandAlone(folder=tmp_path))
        load_state(strategy, before)
        ask(strategy, 2, 2)
        _, metrics = aggregate(strategy, reply([0]), reply([0]))
        assert metrics["dp.epsilon"] == epsilon(1.0, {(2, 2): crash}, 1e-5)


def test_a_ledger_that_was_lost_is_missed(tmp_path: Path) -> None:
    strategy = central(1, 1.0, 2.0, context=StandAlone(folder=tmp_path))
    aggregate(strategy, reply([0]), reply([0]))
    (tmp_path / "releases.jsonl").unlink()
    again = central(1, 1.0, 2.0, context=StandAlone(folder=tmp_path))
    load_state(again, save_state(strategy))
    with pytest.raises(FedmirageError, match="0 entries, but the checkpoint counts 1; restore"):
        ask(again, 2, 2)


def test_the_server_bounds_an_update_that_its_client_did_not() -> None:
    """(30, 40) has the length 50 and becomes (0.6, 0.8); the mean with (0, 0) is (0.3, 0.4)."""
    array, _ = aggregate(central(2, 1.0, 0.0), reply([30, 40]), reply([0, 0]))
    np.testing.assert_allclose(array, [0.3, 0.4], rtol=1e-6)


def test_local_counts_every_round_that_a_client_was_asked_for(tmp_path: Path) -> None:
    """A round that is tried again gets the same reply again; another run in the folder does not."""
    strategy = local(StandAlone(folder=tmp_path))
    ask(strategy, 3, 1)
    ask(strategy, 3, 2)
    array, metrics = aggregate(strategy, reply([7]))
    assert array is not None
    assert array.tolist() == [7]
    assert metrics["dp.epsilon"] == epsilon(1.0, {(1, 1): 1}, 1e-5)
    again = local(StandAlone(folder=tmp_path))  # after a crash
    ask(again, 3, 2)
    ask(again, 3, 2, number=2)
    _, metrics = aggregate(again, reply([7]))
    assert metrics["dp.epsilon"] == epsilon(1.0, {(1, 1): 2}, 1e-5)
    ask(again, 3, 2, number=2, token="b")
    _, metrics = aggregate(again, reply([7]))
    assert metrics["dp.epsilon"] == epsilon(1.0, {(1, 1): 3}, 1e-5)


# Whole runs


@pytest.mark.parametrize("kind", ["central", "local"])
def test_a_huge_clip_without_noise_is_fedavg_of_equals(tmp_path: Path, kind: str) -> None:
    settings = {**SMALL, "partition": "dirichlet(alpha=0.3)", "participation": 0.75}
    run_in_process(tmp_path / "plain", **settings, weighting="uniform")
    run_in_process(tmp_path / "dp", **settings, dp=f"{kind}({HUGE})")
    assert_same_bits(tmp_path / "plain", tmp_path / "dp")
    line = lines(tmp_path / "dp")[-1]
    assert line["accuracy"] == lines(tmp_path / "plain")[-1]["accuracy"]
    assert line["dp"]["epsilon"] is None  # infinite
    assert "dp" not in lines(tmp_path / "plain")[-1]


@pytest.mark.parametrize(("kind", "deviation"), [("central", 0.6 / 4), ("local", 0.6 / 4**0.5)])
def test_the_deviation_of_a_whole_round(tmp_path: Path, kind: str, deviation: float) -> None:
    """noise * clip = 0.6, once on the sum of four, or on each of the four."""
    dp = f"{kind}(clip=0.2, noise=3)"
    config = run_in_process(tmp_path / "one", **STILL, dp=dp)
    run_in_process(tmp_path / "two", **STILL, dp=dp)
    start = initial(config)
    one, two = (
        np.concatenate(
            [(a - b).ravel() for a, b in zip(weights(tmp_path / name), start, strict=True)]
        )
        for name in ("one", "two")
    )
    assert one.size > 30_000
    assert one.std() == pytest.approx(deviation, rel=0.03)
    assert abs(np.corrcoef(one, two)[0, 1]) < 6 / one.size**0.5  # one seed, and yet two noises


def test_every_update_is_clipped(tmp_path: Path) -> None:
    """Four clients move by exactly the clip each, so their mean by no more; all were clipped."""
    settings = {**SMALL, "rounds": 1}
    config = run_in_process(tmp_path / "tight", **settings, dp="central(clip=0.001, noise=0)")
    moved = [
        a.astype(float) - b
        for a, b in zip(weights(tmp_path / "tight"), initial(config), strict=True)
    ]
    length = np.sqrt(sum(np.square(delta).sum() for delta in moved))
    assert 0.0001 < length <= 0.001 * (1 + 1e-3)
    assert lines(tmp_path / "tight")[0]["dp"]["clipped"] == 1
    assert [client["dp.clipped"] for client in lines(tmp_path / "tight")[0]["clients"]] == [
        1,
        1,
        1,
        1,
    ]
    run_in_process(tmp_path / "wide", **settings, dp="central(clip=1000, noise=0)")
    assert lines(tmp_path / "wide")[0]["dp"]["clipped"] == 0


def test_local_sends_nothing_but_the_update(tmp_path: Path) -> None:
    seen: list[FitRes] = []

    def intercept(node: int, message: Message) -> Message:
        if message.metadata.group_id == "1":
            seen.append(compat.recorddict_to_fitres(message.content, True))
        return message

    run_in_process(
        tmp_path,
        intercept,
        **{**SMALL, "rounds": 1},
        dp="local(clip=1, noise=0.1)",
        methods="fedprox",
    )
    assert [(result.num_examples, set(result.metrics)) for result in seen] == [(1, {"layout"})] * 4
    (line,) = lines(tmp_path)
    assert line["clients"] == [
        {"partition": number, "examples": 1, "train": {}} for number in range(4)
    ]
    assert (line["train"], set(line["dp"])) == ({}, {"epsilon", "delta"})
    assert describe_scores(line).endswith("at delta 1e-05")


def test_the_budget_is_written_and_shown(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL, dp="central(clip=0.001, noise=2)", participation=0.5)
    rounds, (summary,) = lines(tmp_path), lines(tmp_path, "summary")
    found = [line["dp"]["epsilon"] for line in rounds]
    assert found == [epsilon(1.0, {(2, 4): number}, 1e-5) for number in (1, 2, 3)]
    assert summary["dp"] == rounds[-1]["dp"]
    assert f"epsilon {found[0]:.4g} at delta 1e-05" in describe_scores(rounds[0])
    table = summary_table(summary)
    assert f"epsilon {found[-1]:.4g} at delta 1e-05" in list(table.columns[1].cells)


def test_a_resumed_run_goes_on_counting(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 4, "participation": 0.75, "dp": "central(clip=0.001, noise=2)"}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    one, other = (
        [line["dp"] for line in without_times(tmp_path / name)] for name in ("whole", "cut")
    )
    assert one == other
    assert one[-1]["epsilon"] > one[-2]["epsilon"]


def test_a_resumed_local_run_gets_the_replies_that_were_sent_already(tmp_path: Path) -> None:
    """The interrupted round was answered once, so that it is paid for once."""
    settings = {**SMALL, "rounds": 4, "dp": "local(clip=0.001, noise=2)"}
    sent: dict[int, list[bytes]] = {}

    def remember(intercept: Any) -> Any:
        def seen(node: int, message: Message) -> Message | None:
            if message.metadata.group_id == "3":
                result = compat.recorddict_to_fitres(message.content, True)
                sent.setdefault(node, []).append(b"".join(result.parameters.tensors))
            return intercept(node, message) if intercept else message

        return seen

    with pytest.raises(KilledError):
        run_in_process(tmp_path, remember(kill_in_round(3)), **settings)
    run_in_process(tmp_path, remember(None), **settings, resume=str(tmp_path))
    found = [line["dp"]["epsilon"] for line in lines(tmp_path)]
    assert found == [epsilon(1.0, {(1, 1): number}, 1e-5) for number in (1, 2, 3, 4)]
    repeated = [replies for replies in sent.values() if len(replies) == 2]
    assert len(repeated) >= 2
    assert all(first == second for first, second in repeated)


def test_the_draw_of_a_private_run_does_not_follow_from_the_seed(tmp_path: Path) -> None:
    """Ten rounds of two out of four clients: two runs agree on all draws once in 6^10 times."""
    settings = {**SMALL, "rounds": 10, "local_steps": 1, "eval_every": 10, "participation": 0.5}
    drawn = []
    for name in ("one", "two"):
        run_in_process(tmp_path / name, **settings, dp="central(clip=0.1, noise=1)")
        drawn.append(
            [[one["partition"] for one in line["clients"]] for line in lines(tmp_path / name)]
        )
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("figure", ["participants", "answered", "dp.epsilon"])
def test_a_client_cannot_report_what_belongs_to_the_server(tmp_path: Path, figure: str) -> None:
    """participants=10^9 would divide the noise by 10^9, while the budget stays the same."""

    def lie(node: int, message: Message) -> Message:
        if node == node_id(1) and message.metadata.group_id == "1":
            message.content.config_records["fitres.metrics"][figure] = 10**9
        return message

    run_in_process(tmp_path, lie, **STILL, dp="central(clip=0.2, noise=3)")
    (line,) = lines(tmp_path)
    assert [entry["partition"] for entry in line["refused"]] == [1]
    assert figure in line["refused"][0]["reason"]
    moved = np.concatenate([array.ravel() for array in weights(tmp_path)]) - np.concatenate(
        [array.ravel() for array in initial(configure(STILL))]
    )
    assert moved.std() == pytest.approx(0.6 / 3, rel=0.05)


@pytest.mark.parametrize("dp", ["central(clip=1, noise=0.01)", "local(clip=1, noise=0.001)"])
@pytest.mark.parametrize("methods", ["fedprox, fedavgm", "fedper", "moon, fedadam"])
def test_methods_run_under_it(tmp_path: Path, methods: str, dp: str) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 2}, methods=methods, dp=dp)
    assert lines(tmp_path)[-1]["dp"]["epsilon"] > 0
    evaluated = lines(tmp_path)[-1]["evaluation"]
    assert ("local_model.on_test_shard.by_examples.accuracy" in evaluated) == (
        methods == "fedper" and dp.startswith("central")
    )


def test_under_secure_aggregation_nothing_else_changes(tmp_path: Path) -> None:
    """Without noise, the numbers are those of a plain run, up to the quantisation of the masks.

    The one reply stands for four clients, all of which were clipped.
    """
    settings = {**SMALL, "rounds": 1, "partition": "dirichlet(alpha=0.3)"}
    for name, secagg in {"plain": "off", "secure": "on"}.items():
        run_in_process(tmp_path / name, **settings, secagg=secagg, dp="central(clip=0.01, noise=0)")
    for one, other in zip(weights(tmp_path / "plain"), weights(tmp_path / "secure"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)
    plain, secure = (lines(tmp_path / name)[0] for name in ("plain", "secure"))
    assert secure["dp"] == plain["dp"]
    assert secure["dp"]["clipped"] == 1


@pytest.mark.parametrize(("kind", "deviation"), [("central", 0.06 / 4), ("local", 0.06 / 4**0.5)])
def test_noise_and_budget_under_secure_aggregation(
    tmp_path: Path, kind: str, deviation: float
) -> None:
    config = run_in_process(tmp_path, **STILL, dp=f"{kind}(clip=0.02, noise=3)", secagg="on")
    noise = np.concatenate(
        [(a - b).ravel() for a, b in zip(weights(tmp_path), initial(config), strict=True)]
    )
    assert noise.std() == pytest.approx(deviation, rel=0.03)
    (line,) = lines(tmp_path)
    assert line["dp"]["epsilon"] == epsilon(1.5, {(4, 4): 1}, 1e-5)
    if kind == "local":
        assert (line["train"], line["secagg"]) == ({}, {"clients": 4, "examples": 4})


def test_drift_is_seen_beside_the_noised_average(tmp_path: Path) -> None:
    run_in_process(
        tmp_path,
        **{**SMALL, "rounds": 1},
        dp="central(clip=0.001, noise=1)",
        diagnostics=True,
        validation=0.1,
    )
    assert lines(tmp_path)[0]["diagnostics"]["drift"] > 0


def test_batch_norm_is_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="batch norm"):
        run_in_process(tmp_path, **SMALL, model="lenet-bn", dp="central(clip=1, noise=1)")
    assert lines(tmp_path) == []


def test_the_noise_is_innermost() -> None:
    strategy = central(1, 1.0, 1.0)
    assert list(chain(strategy)) == [strategy]
    assert isinstance(strategy.inner, Average)
