"""Makes the line of results.jsonl about one round, in this one place.

server/record/format.py says what each key holds.
"""

import statistics
from typing import Any

from flwr.common import Scalar

from fedmirage.common.errors import WireError
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.wire import metrics as wire
from fedmirage.server.messages.plain import FitOutcome
from fedmirage.server.strategy.budget import metrics as budget_metrics


def make_round_line(
    number: int,
    outcome: FitOutcome,
    evaluated: dict[str, Any],
    config: RunConfig,
    progress: dict[str, Any],
) -> dict[str, Any]:
    """Make the line of a round, except for its times.

    `evaluated` is the result of the evaluation, or empty. The running number of samples is kept in
    `progress`, and thereby in the checkpoint.
    """
    metrics = outcome.metrics
    line: dict[str, Any] = {"kind": "round", "round": number, "lr": config.learning_rate(number)}
    line |= {"accuracy": None, "loss": None}
    line |= evaluated
    line |= {"train": with_prefix(metrics, wire.TERM)}
    line |= {"clients": outcome.clients, "refused": outcome.refused}
    if outcome.secagg is not None:
        line["secagg"] = outcome.secagg
    if methods := method_figures(metrics, config):
        line["methods"] = methods
    if wire.AFRESH in metrics:
        line["optimizer"] = {"started_afresh": count_clients(outcome, wire.AFRESH)}
    if fell_back := count_clients(outcome, wire.FELL_BACK):
        line["memory"] = {"fell_back": fell_back}
    if config.dp_params.active:
        line["dp"] = budget_metrics(metrics)
    if config.diagnostics:
        line["diagnostics"] = diagnose(outcome, progress)
    validated = line.get("validation", {}).get("bytes_down", 0)
    line |= {"bytes_up": outcome.bytes_up, "bytes_down": outcome.bytes_down + validated}
    local = {name: value for name, value in metrics.items() if name.startswith(wire.SCORES)}
    line["evaluation"] = {**local, **spread(outcome.clients), **line.get("evaluation", {})}
    return line


def count_clients(outcome: FitOutcome, name: str) -> int:
    """Count the clients that report 1 under a name; a secure sum has their share of all."""
    if outcome.secagg is not None:
        return round(float(outcome.metrics.get(name, 0)) * outcome.secagg["clients"])
    return sum(client.get(name) == 1 for client in outcome.clients)


def spread(clients: list[dict[str, Any]]) -> dict[str, float]:
    """Return the worst, the best and the std of the local models' accuracies on their test shards.

    Only clients that were scored count.
    """
    name = f"{wire.TEST_SHARD}accuracy"
    trained = [client for client in clients if client.get("examples")]
    scores = [client[name] for client in trained if name in client]
    if not scores:
        return {}
    found = {"worst": min(scores), "best": max(scores), "std": statistics.pstdev(scores)}
    return {f"{wire.SHARD_SCORES}{name}.accuracy": value for name, value in found.items()}


def with_prefix(metrics: dict[str, Scalar], prefix: str) -> dict[str, Scalar]:
    """Return the metrics that begin with a prefix, without that prefix."""
    return {
        name.removeprefix(prefix): value
        for name, value in metrics.items()
        if name.startswith(prefix)
    }


def method_figures(metrics: dict[str, Scalar], config: RunConfig) -> dict[str, Scalar]:
    """Return what the methods of this run report about a round, each under its method's name.

    A metric that belongs to nothing would vanish from the record, so that it is refused.
    """
    known = tuple(f"{method.name}." for method in config.method_list)
    for name in metrics:
        if not name.startswith((*known, *wire.PREFIXES)) and name not in wire.COUNTED:
            raise WireError(
                f"the metric {name!r} belongs to no method of this run; write METHOD.{name}"
            )
    return {name: value for name, value in metrics.items() if name.startswith(known)}


def diagnose(outcome: FitOutcome, progress: dict[str, Any]) -> dict[str, float]:
    """Compute the diagnostics of one round."""
    processed = sum(int(client.get(wire.SAMPLES, 0)) for client in outcome.clients)
    progress["samples"] = progress.get("samples", 0) + processed
    found = {"drift": float(outcome.metrics[wire.DRIFT])} if wire.DRIFT in outcome.metrics else {}
    trained = [client for client in outcome.clients if client["examples"]]
    names = {name for client in trained for name in client if name.startswith(wire.LOCAL_MODEL)}
    for name in sorted(names):
        scores = [(client["examples"], client[name]) for client in trained if name in client]
        on, metric = name.removeprefix(wire.DIAGNOSTICS).rsplit(".", 1)
        total = sum(examples for examples, _ in scores)
        weighted = sum(examples * score for examples, score in scores)
        found[f"{on}.by_examples.{metric}"] = weighted / total
        found[f"{on}.by_clients.{metric}"] = statistics.fmean(score for _, score in scores)
    return {**found, "samples": progress["samples"]}
