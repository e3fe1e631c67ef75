"""The names of all metrics that a client may report beside its arrays, and their prefixes.

An undeclared metric is refused in every mode. Under secure aggregation each metric needs a fixed
position in the sum, and in a plain run an undeclared metric is a misspelt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fedmirage.common.errors import WireError
from fedmirage.common.method import Weighting
from fedmirage.common.wire import held_out

if TYPE_CHECKING:
    from fedmirage.common.run import Run

TERM = "term."  # the prefix of the terms of the local objective
TASK_TERM = f"{TERM}task"
STEPS = "steps"  # optimiser steps
SAMPLES = "samples"  # samples in the batches of these steps, repeats included
SECONDS = "seconds"  # how long the client took to handle the whole message
TIMES = "seconds."  # the prefix of the times that methods take, which are part of it
OPTIMIZER = "optimizer."  # the prefix of the metrics of optimizer-state="kept"
AFRESH = f"{OPTIMIZER}started_afresh"  # 1 if a client has lost what its optimiser knew of the run
MEMORY = "memory."  # the prefix of the metrics of clients' memories
FELL_BACK = f"{MEMORY}fell_back"  # 1 if what a client remembered of its last round was damaged
DP = "dp."  # the prefix of the metrics of differential privacy
CLIPPED = f"{DP}clipped"  # 1 if the client's update was longer than dp's clip
SCORES = "local_model."  # the prefix of the scores of local models
SHARD_SCORES = f"{SCORES}on_test_shard."  # those on the client's own shard of the test set
TEST_SHARD = f"{SHARD_SCORES}by_examples."  # their mean over the clients, weighted by examples
# The prefix of the scores of the average of all local models, which only a simulation knows.
AVERAGE_SCORES = "average_of_local_models.on_test.by_examples."
# Scores of a model on the whole test set beside its accuracy, and what they are called. Clients do
# not report them: a ROC area cannot be added up from their parts.
FURTHER_SCORES = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "auc": "area under the ROC curve",
}
DIAGNOSTICS = "diagnostics."  # the prefix of the metrics that --diagnostics adds
DRIFT = f"{DIAGNOSTICS}drift"
LOCAL_MODEL = f"{DIAGNOSTICS}local_model"
ON_TEST = f"{LOCAL_MODEL}.on_test.accuracy"
ON_OWN_LABELS = f"{LOCAL_MODEL}.on_own_labels.accuracy"
# What each stands for in results.jsonl; * is any name.
MEANINGS = {
    STEPS: "Optimiser steps of the client.",
    SAMPLES: "Samples in the batches of these steps, repeats included.",
    SECONDS: "How long the client took to handle the whole message.",
    f"{TIMES}*": "The part of it that a method took for its own work.",
    AFRESH: "1 if the client has lost what its optimiser knew of the run.",
    CLIPPED: "1 if the client's update was longer than dp's clip.",
    f"{held_out.PREFIX}*": 'With `server-data="none"`: how many samples the site holds out'
    " (`examples`), and the scores on them of the model that it got; where only a part is shared,"
    " of its own model after training.",
    f"{TEST_SHARD}*": "Scores of local models, each on its client's own shard of the test set; the"
    " line of a round has their mean, weighted by examples (FedMD-CG's L.acc).",
    f"{SHARD_SCORES}*": "The `worst`, the `best` and the `std` of these accuracies over clients.",
    f"{AVERAGE_SCORES}*": "Scores of the average of all clients' last models, read from their"
    " memories on the server's own host; not with secagg or dp (FedMD-CG's G.acc).",
    f"{LOCAL_MODEL}.on_test.*": "Accuracy of local models on the test set, right after training.",
    f"{LOCAL_MODEL}.on_own_labels.*": "The same, with test samples weighted by the client's own"
    " label distribution. The line of a round has the means of both: `by_examples`, and"
    " `by_clients`, where every client counts once.",
}

# Keys of a reply's metrics that are not metrics.
ERROR = "error"  # why a client has nothing to send
PARTICIPANTS = "participants"  # in the only reply of a secure sum: how many clients trained
ANSWERED = "answered"  # in the same reply: the partitions that it represents, e.g. "0 2 3"

# What a round's metrics hold beside the metrics of its methods.
PREFIXES = (TERM, DIAGNOSTICS, SCORES, OPTIMIZER, MEMORY, DP, TIMES, held_out.PREFIX)
COUNTED = (STEPS, SAMPLES, SECONDS, PARTICIPANTS)


def declared_metrics(run: Run) -> tuple[str, ...]:
    """All metrics that the clients of a run may report, in a fixed order."""
    config = run.config
    if config.dp_params.name == "local":  # such a client sends its noised update and nothing else
        return ()
    names = [TASK_TERM, STEPS, SAMPLES, SECONDS, FELL_BACK]
    if config.optimizer_state == "kept":
        names.append(AFRESH)
    if config.dp_params.active:
        names.append(CLIPPED)
    if config.scores_local_models:
        names += [f"{TEST_SHARD}{name}" for name in run.metric_names]
    if config.scores_at_sites:
        names += held_out.names_of(run.metric_names)
    if config.diagnostics:
        names += [ON_TEST, ON_OWN_LABELS] * config.server_reads_data
        names += [name for method in config.method_list for name in method.diagnostics]
    names += [name for method in config.method_list for name in method.metrics]
    return tuple(dict.fromkeys(names))


def check_declared(metrics: Mapping[str, object], declared: Iterable[str]) -> None:
    """Raise a WireError that names the first undeclared metric."""
    if undeclared := sorted(metrics.keys() - set(declared)):
        raise WireError(
            f"the metric {undeclared[0]!r} is not declared by any method of this run; add it to"
            " `metrics` of its declaration"
        )


def weighting_of(metric: str) -> Weighting:
    """How a metric is averaged over clients."""
    once = metric in (AFRESH, CLIPPED, FELL_BACK) or metric.startswith(held_out.PREFIX)
    return "uniform" if once else "examples"
