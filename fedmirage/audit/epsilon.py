"""An empirical check of the budget of --dp: does the noise hide as much as the accountant says?

One client is a canary. In half of many small runs its update points one way, in the other half the
opposite way, and it is far longer than `clip`: two data sets of one client that differ as much as
any two can. The other clients send the model back as they got it. Everything that protects is the
program's own: the client bounds its update (client/dp.py), the server bounds it again, averages,
adds noise and counts what it released (server/strategy/dp.py).

Whoever sees the releases measures how far they lie in the canary's direction, and guesses by a
threshold which data the canary had. If the budget is right, then for all thresholds

    share of right guesses <= e^epsilon * share of wrong guesses + delta,

so both shares give a lower bound on epsilon (Jagielski, Ullman, Oprea: Auditing differentially
private machine learning, NeurIPS 2020). The threshold is chosen on half of the runs; the other half
gives both shares, with the ends of their exact intervals that favour the budget. A bound above the
accountant's figure means that the noise, the bound or the accountant is wrong. A bound far below it
is no proof of the contrary: this attack sees one direction, and counting has its own error.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from flwr.app import Message
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.serverapp import Grid

from fedmirage.audit.attack import AuditFinding, AuditTable
from fedmirage.audit.attacks_on_outcomes import Epsilon
from fedmirage.audit.binomial import bound_share
from fedmirage.audit.overheard import Overheard
from fedmirage.client.dp import DpReply, Reply
from fedmirage.common.dp.settings import CentralDp, DpOn, LocalDp
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import write
from fedmirage.common.wire.payload import LAYOUT, SHARED, Array, Arrays, pack
from fedmirage.server.messages.replies import Replies
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.strategy.average import Average
from fedmirage.server.strategy.budget import EPSILON
from fedmirage.server.strategy.context import StandAlone
from fedmirage.server.strategy.dp import CentralNoise, LocalBudget

WEIGHTS = 8  # of the tiny model; the noise on each of them is independent
DIRECTION = np.full(WEIGHTS, WEIGHTS**-0.5)  # of the canary's update; its length is 1
FAR = 10.0  # the canary's update, in multiples of clip
MEMORY = Path("/dev/shm")  # what a client must have on its disk is there at once
CANARY = 0  # the canary's partition
QUANTILES = np.linspace(0.5, 1, 51)  # where thresholds are tried
EVERY = 100  # runs between two words about how far the audit is


@dataclass(frozen=True)
class Bound:
    """A lower bound on epsilon, and the counts that it rests on."""

    epsilon: float
    right: int  # guesses that the canary had the first data, of runs in which it had
    wrong: int  # the same guesses in runs in which it had not
    runs: int  # of each kind


def carry_out(params: Epsilon, seen: Overheard) -> AuditFinding:
    """Do the runs, and compare the bound with the accountant's figure."""
    dp = seen.config.dp_params
    assert isinstance(dp, DpOn)
    releases = CanaryRuns(seen.config, dp)
    told = 0.0
    for number in range(params.runs):
        if number % EVERY == 0:
            seen.tell(f"releasing with a canary: {number} of {params.runs} runs")
        told = max(told, releases.observe(number % 2 == 0))
    return report(bound_epsilon(*releases.seen, dp.delta), told, seen.config, dp)


@dataclass
class CanaryRuns:
    """Small runs with a canary, and how far in its direction each of them was seen to move."""

    config: RunConfig
    dp: DpOn
    seen: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))

    def __post_init__(self) -> None:
        self.roster = Roster(
            cast(Grid, None),  # nobody is asked anything
            self.config.clients,
            self.config.seed,
            exchange=no_replies,
            expected={},
            secret=self.dp.secret_draw,
        )
        self.roster.proxies = {
            partition: PartitionProxy(partition, partition, self.roster.grid, {})
            for partition in range(self.config.clients)
        }

    def observe(self, first: bool) -> float:
        """Do one run with the canary's first data, or its second; return what the run has spent."""
        start: Arrays = [np.zeros(WEIGHTS, np.float32)]
        average = Average(start, self.config.participation, "uniform")
        strategy = (
            CentralNoise(average, self.dp, StandAlone())
            if isinstance(self.dp, CentralDp)
            else LocalBudget(average, cast(LocalDp, self.dp), StandAlone())
        )
        model, seen, spent = start, 0.0, 0.0
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            canary = Canary(self.dp, Path(folder), 1.0 if first else -1.0)
            for number in range(1, self.config.rounds + 1):
                clients = self.roster.draw(number)
                asked = strategy.configure_fit(number, ndarrays_to_parameters(model), clients)
                results = [
                    (proxy, canary.answer(int(proxy.cid), model, number)) for proxy, _ in asked
                ]
                parameters, metrics = strategy.aggregate_fit(number, results, [])
                assert parameters is not None
                (after,) = parameters_to_ndarrays(parameters)
                if isinstance(self.dp, CentralDp):  # the server's sum is what it releases
                    seen += len(results) * project(after - model[0])
                model, spent = [after], float(metrics[EPSILON])
            if isinstance(self.dp, LocalDp):  # the server sees what the canary has sent
                seen = canary.sent
        self.seen[0 if first else 1].append(seen)
        return spent


def no_replies(messages: list[Message], timeout: float) -> Replies:
    """Stand in for an exchange of messages, of which these runs have none."""
    raise AssertionError("nobody is asked anything")


@dataclass
class Canary:
    """The clients of a run: one moves far in its direction, the others do not move."""

    dp: DpOn
    folder: Path
    way: float  # +1 or -1
    sent: float = 0.0  # how far its replies lay in the direction of the first data

    def answer(self, partition: int, model: Arrays, number: int) -> FitRes:
        """Reply as a client of a run does, with what may leave it."""
        if partition != CANARY:
            return make_reply(Reply({SHARED: model}, 1, {}))
        moved = model[0] + self.way * FAR * self.dp.clip * DIRECTION
        release = DpReply(self.dp, self.folder, self.folder / "releases.jsonl", "audit", number)
        reply = release.protect(Reply({SHARED: [moved.astype(np.float32)]}, 1, {}), model)
        self.sent += project(reply.sections[SHARED][0] - model[0])
        return make_reply(reply)


def make_reply(reply: Reply) -> FitRes:
    """Pack a reply as the client does."""
    flat, layout = pack(reply.sections)
    told = {**reply.metrics, LAYOUT: layout}
    return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(flat), reply.examples, told)


def project(move: Array) -> float:
    """Measure how far something lies in the canary's direction."""
    return float(DIRECTION @ move.astype(np.float64))


def bound_epsilon(first: Sequence[float], second: Sequence[float], delta: float) -> Bound:
    """Bound epsilon from below with 95 % confidence, given what was seen with either data.

    Whoever guesses from below or from above a threshold makes two tests; the better one counts.
    """
    half = min(len(first), len(second)) // 2
    pairs = [(np.asarray(first), np.asarray(second)), (-np.asarray(second), -np.asarray(first))]
    guesses = [
        (bound_guess(one[:half], other[:half], threshold, delta).epsilon, side, threshold)
        for side, (one, other) in enumerate(pairs)
        for threshold in np.quantile(other[:half], QUANTILES)
    ]
    _, side, threshold = max(guesses)
    one, other = pairs[side]
    return bound_guess(one[half : 2 * half], other[half : 2 * half], threshold, delta)


def bound_guess(one: Array, other: Array, threshold: float, delta: float) -> Bound:
    """Bound epsilon by counting how often either lies above a threshold."""
    right, wrong = (int((seen > threshold).sum()) for seen in (one, other))
    least, most = bound_share(right, len(one))[0], bound_share(wrong, len(other))[1]
    found = math.log((least - delta) / most) if least > delta else 0.0
    return Bound(max(found, 0.0), right, wrong, len(one))


def report(bound: Bound, told: float, config: RunConfig, dp: DpOn) -> AuditFinding:
    """Say whether the budget holds."""
    rounds = f"{config.rounds} round{'s' * (config.rounds > 1)}"
    figures = f"epsilon is at least {bound.epsilon:.3g} with 95 % confidence, and the accountant"
    if bound.epsilon > told:
        says = f"The budget is wrong: {figures} says {told:.3g}. Do not rely on it; report this."
    else:
        says = (
            f"Nothing speaks against the budget: {figures} says {told:.3g} at delta {dp.delta:g}."
        )
    head = ("dp", "rounds", "accountant", "lower bound", "right guesses", "wrong guesses", "runs")
    row = (
        write(dp),
        str(config.rounds),
        told,
        bound.epsilon,
        f"{bound.right} of {bound.runs}",
        f"{bound.wrong} of {bound.runs}",
        str(4 * bound.runs),
    )
    note = f"Each run has {rounds}; half of the runs choose the threshold, the others count."
    numbers = {"accountant": told, "bound": bound.epsilon, "delta": dp.delta}
    counts = {"right": bound.right, "wrong": bound.wrong, "runs": 4 * bound.runs}
    return AuditFinding(
        [says], [AuditTable("Epsilon", head, [row], note)], [], {**numbers, **counts}
    )
