"""The rounds of a run: fit, evaluate, record, save; retry failed rounds; stop early on request.

A round calls the strategy as Flower's `Server.fit` does, in the same order:

    run_round
        try_fit                     again, with the clients then present, if too few have answered
            fit                     server/messages/plain.py, or secagg.py with secure aggregation:
                                    strategy.configure_fit, messages, strategy.aggregate_fit
        evaluate                    strategy.evaluate on the server's test set; without one, the
                                    sites score the model (site_scores.py)
            validate                if asked for: strategy.configure_evaluate, messages,
                                    strategy.aggregate_evaluate
        track_best, append, save    best model and early stopping; one line of results; checkpoint
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from logging import INFO
from pathlib import Path
from typing import Any, cast

from flwr.app import MessageType
from flwr.common import Parameters, log, ndarrays_to_parameters
from flwr.compat.common import recorddict_compat as compat
from flwr.server.strategy import Strategy

from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.detail import select_for_round, select_for_summary
from fedmirage.common.run import own_randomness
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire.payload import Arrays, size, view
from fedmirage.server.messages import plain
from fedmirage.server.messages.plain import Fit, FitOutcome, RoundFailed
from fedmirage.server.messages.preparation import Preparer
from fedmirage.server.messages.replies import read_evaluation
from fedmirage.server.messages.roster import Roster
from fedmirage.server.messages.sampling import PartitionProxy
from fedmirage.server.messages.tries import Tries
from fedmirage.server.record.checkpoint import FILE as CHECKPOINT
from fedmirage.server.record.checkpoint import Checkpoint
from fedmirage.server.record.line import make_round_line
from fedmirage.server.record.results import Results
from fedmirage.server.record.scores import Evaluator
from fedmirage.server.record.shown import describe_scores, describe_sites
from fedmirage.server.site_scores import KIND, ask_for_scores, describe_missing, make_sites_line
from fedmirage.server.strategy.wrapper import idle, release, save_state


def look_at(parameters: Parameters) -> Arrays:
    """See the arrays of a message in its own bytes, which cannot be changed."""
    return [view(tensor) for tensor in parameters.tensors]


@dataclass
class Rounds:
    """A run from its checkpoint (round 0 for a new one) to its last round."""

    config: RunConfig
    folder: Path
    strategy: Strategy
    roster: Roster
    tries: Tries
    fit: Fit  # one round of messages: the model that the strategy makes of the replies
    evaluator: Evaluator
    results: Results
    checkpoint: Checkpoint
    prepare: Preparer | None = None  # if a method has work to do before a client's first round
    # the last evaluation, with what the lines of rounds leave out
    last_evaluation: dict[str, Any] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # sentences about sites without held-out data
    scored: set[int] = field(default_factory=set)  # rounds whose models the sites have scored
    named: dict[str, str] = field(default_factory=dict)  # the names that results.jsonl has

    def run(self) -> dict[str, Any]:
        """Do all rounds; return the summary line."""
        started = time.perf_counter()
        self.roster.await_all(self.config.node_timeout, self.config.min_replies)
        if self.config.server_reads_data:
            self.choose_test_set()
        self.scored = {int(line["round"]) for line in self.results.lines(KIND)}
        stopped = self.out_of_patience  # a resumed run may have stopped early already
        for number in range(self.checkpoint.round + 1, self.config.rounds + 1):
            if stopped:
                break
            with own_randomness(self.config, "server", number):
                stopped = self.run_round(number)
        self.score_last()
        more: dict[str, Any] = {"seconds": time.perf_counter() - started}
        more |= {"stopped_early": True} if stopped else {}
        detail, unused = select_for_summary(self.last_evaluation), idle(self.strategy)
        return self.results.finish("finished", detail, unused, **more, **self.checkpoint.progress)

    def choose_test_set(self) -> None:
        """Test on all of the server's set if every node trains on data of its own.

        Nothing of the set is given away then. A set whose files have a test split keeps to it.
        """
        if self.roster.all_own and self.evaluator.run.dataset.divided:
            self.roster.only_own = True
            self.evaluator.use(self.evaluator.run.dataset.everything)
            count = len(self.evaluator.test)
            log(INFO, "all nodes have own data: the server tests on all its %s samples", count)

    def run_round(self, number: int) -> bool:
        """Do one round; return whether the run should stop after it."""
        started = time.perf_counter()
        sent = ndarrays_to_parameters(self.checkpoint.shared)
        self.checkpoint.shared = look_at(sent)  # in memory once, as it is sent
        outcome = self.try_fit(number, sent)
        parameters = outcome.parameters or sent
        shared = self.keep_fixed(look_at(parameters))
        fitted = time.perf_counter()
        evaluated = (
            self.evaluate(number, shared, outcome.without) if self.config.evaluates(number) else {}
        )
        progress = self.checkpoint.progress
        for text in self.roster.take_notes():
            self.results.note(number, text)
        line = make_round_line(number, outcome, evaluated, self.config, progress)
        line |= self.tell_names()
        now = time.perf_counter()
        line["seconds"] = {**outcome.seconds, "evaluate": now - fitted, "round": now - started}
        offered = release(self.strategy, parameters)
        released = shared if offered is parameters else self.keep_fixed(look_at(offered))
        stop = self.track_best(line, released)
        scored = self.config.scored_at_sites(number)
        if scored == number - 1:
            self.record_scores(scored, outcome)
        self.results.append(line)
        if scored == number:
            self.record_scores(scored, outcome)
        self.save(number, shared, released)
        log(INFO, "round %s/%s: %s", number, self.config.rounds, describe_scores(line))
        return stop

    def tell_names(self) -> dict[str, dict[str, str]]:
        """Return the names of sites for the line of a round, once and after every change."""
        names = {str(partition): name for partition, name in sorted(self.roster.names.items())}
        if names == self.named:
            return {}
        self.named = names
        return {"sites": names}

    def keep_fixed(self, arrays: Arrays) -> Arrays:
        """Undo what an average, noise or a dishonest client did to frozen weights."""
        if not self.config.freeze:
            return arrays
        return self.evaluator.run.shared.keep_fixed(arrays, self.checkpoint.shared)

    def record_scores(self, scored: int, outcome: FitOutcome) -> None:
        """Write what the sites report about the model of a round, and who holds out nothing."""
        if scored in self.scored:
            return  # a resumed run has it already
        self.scored.add(scored)
        line = make_sites_line(self.config, scored, outcome)
        if (missing := describe_missing(line, self.roster.names)) and missing not in self.told:
            self.told.add(missing)
            self.results.note(scored, missing)
        self.results.append(line)
        log(INFO, "%s", describe_sites(line))

    def score_last(self) -> None:
        """Let the sites score the last model, with which no round begins."""
        last = self.checkpoint.round
        due = self.config.shares_all and self.config.scores_at_sites and last not in self.scored
        if not due or not last:
            return
        parameters = ndarrays_to_parameters(self.checkpoint.shared)

        def ask(without: dict[int, str]) -> FitOutcome:
            asked = ask_for_scores(self.config, self.roster, self.checkpoint, parameters, without)
            return self.fit.score(last + 1, parameters, asked)

        try:
            self.record_scores(last, self.tries(last + 1, ask))
        except FedmirageError as error:
            raise FedmirageError(
                f"the model of round {last} is saved, but the sites have not scored it: {error}"
                f" Continue with: fedmirage run --resume {self.folder}"
            ) from None

    def try_fit(self, number: int, parameters: Parameters) -> FitOutcome:
        """Train for a round, with whoever is present if it has to be tried again."""
        return self.tries(number, lambda without: self.fit_prepared(number, parameters, without))

    def fit_prepared(
        self, number: int, parameters: Parameters, without: Mapping[int, str]
    ) -> FitOutcome:
        """Train with the clients that have done what methods need before their first round.

        A client that does not take part may have lost what it had prepared, so it is asked again
        before the next round.
        """
        if self.prepare is None:
            return replace(self.fit(number, parameters, without), without=without)
        started = time.perf_counter()
        lost = self.prepare(number)
        seconds = time.perf_counter() - started
        omitted = {**without, **{int(entry["partition"]): "" for entry in lost}}
        try:
            outcome = self.fit(number, parameters, omitted)
        except RoundFailed as error:
            self.prepare.forget(set(self.roster.proxies))
            hopeless = error.hopeless or (
                len(lost) == len(self.roster.proxies) and plain.is_one_exception(lost)
            )
            text = f"{error} {plain.explain(lost, self.roster.names)}" if lost else str(error)
            raise RoundFailed(text, hopeless, error.without) from None
        self.prepare.forget({int(entry["partition"]) for entry in outcome.refused})
        outcome.refused = sorted(lost + outcome.refused, key=lambda entry: int(entry["partition"]))
        outcome.seconds["preparation"] = seconds
        return replace(outcome, without=omitted)

    def evaluate(self, number: int, shared: Arrays, without: Collection[int]) -> dict[str, Any]:
        """Evaluate the global model on the test set and, if configured, on validation shares."""
        parameters = ndarrays_to_parameters(shared)
        scored = self.strategy.evaluate(number, parameters)
        line: dict[str, Any] = {}
        if scored is not None:
            loss, metrics = scored
            self.last_evaluation = dict(metrics)
            accuracy, kept = metrics.pop("accuracy", None), select_for_round(metrics)
            line = {"accuracy": accuracy, "loss": loss, "evaluation": kept}
        if self.config.validation:
            line["validation"] = self.validate(number, parameters, without)
        if self.config.averages_local_models:
            memories = self.folder / "memory" / self.checkpoint.token
            averaged = self.evaluator.average_of_local_models(memories, number)
            line["evaluation"] = {**line.get("evaluation", {}), **averaged}
        return line

    def validate(
        self, number: int, parameters: Parameters, without: Collection[int]
    ) -> dict[str, Any]:
        """Evaluate the global model on every client's validation share; average by examples."""
        draw = self.roster.draw(number, without)
        drawn = self.strategy.configure_evaluate(number, parameters, draw)
        asked = [
            (cast(PartitionProxy, proxy), plain.add_last_counted(ins, proxy, self.checkpoint))
            for proxy, ins in drawn
        ]
        contents = [(proxy, compat.evaluateins_to_recorddict(ins, True)) for proxy, ins in asked]
        messages = [proxy.message(one, MessageType.EVALUATE, number) for proxy, one in contents]
        replies = self.roster.exchange(messages, self.config.round_timeout)
        read = partial(read_evaluation, self.evaluator.run.metric_names)
        proxies = [proxy for proxy, _ in asked]
        answers, refused = plain.sort_replies(proxies, replies, read, self.config.round_timeout)
        plain.warn(refused, self.roster.names)
        counted = [(proxy, result) for proxy, result in answers if result.num_examples]
        if not counted:
            nobody = "no client has validation data; raise validation, or set it to 0"
            why = plain.explain(refused, self.roster.names) or nobody
            raise FedmirageError(f"round {number} could not be validated: {why}")
        loss, metrics = self.strategy.aggregate_evaluate(number, counted, [])
        return {
            "loss": loss,
            **metrics,
            "clients": len(counted),
            "silent": [entry["partition"] for entry in refused],
            "bytes_down": sum(size(ins.parameters) for _, ins in asked),
        }

    def track_best(self, line: dict[str, Any], released: Arrays) -> bool:
        """Keep the best model by validation loss; return whether patience has run out."""
        loss = line.get("validation", {}).get("loss")
        if loss is None:
            return False
        progress = self.checkpoint.progress
        if loss < progress.get("best_validation_loss", float("inf")):
            progress |= {
                "best_validation_loss": loss,
                "best_round": line["round"],
                "best_round_accuracy": line["accuracy"],
                "waited": 0,
            }
            self.evaluator.save(released, self.folder / "best.safetensors", line["round"])
        else:
            progress["waited"] = progress.get("waited", 0) + 1
        return self.out_of_patience

    @property
    def out_of_patience(self) -> bool:
        """Whether `patience` evaluations in a row brought no improvement."""
        return 0 < self.config.patience <= int(self.checkpoint.progress.get("waited", 0))

    def save(self, number: int, shared: Arrays, released: Arrays) -> None:
        """Write the model, the checkpoint and, with keep-models=all, this round's model file.

        Later runs start from the checkpoint or from a model that was kept, and so from `shared`.
        """
        self.checkpoint.round, self.checkpoint.shared = number, shared
        self.checkpoint.strategy = save_state(self.strategy)
        if self.config.keep_models == "all":
            (self.folder / "models").mkdir(exist_ok=True)
            kept = self.folder / "models" / f"round-{number:05d}.safetensors"
            self.evaluator.save(shared, kept, number)
        self.evaluator.save(released, self.folder / "model.safetensors", number)
        self.checkpoint.write(self.folder / CHECKPOINT)
