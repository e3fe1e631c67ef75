"""Every figure that a client may report beside its arrays: one place for their names.

A figure that nobody declared is refused in every mode. Under secure aggregation the sum needs a
fixed place for each of them, and in a plain run an undeclared one would be a misspelt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from common.errors import WireError
from common.method import Weighting

if TYPE_CHECKING:
    from common.run import Run

TERM = "term."  # the prefix of a term of the local objective
TASK_TERM = f"{TERM}task"
STEPS = "steps"  # of the optimiser
SAMPLES = "samples"  # that those steps looked at, repeats counted
SECONDS = "seconds"  # that the client took for the whole message
CLIPPED = "dp.clipped"  # 1 if its update was longer than dp's clip
TEST_SHARD = "local_model.on_test_shard.by_examples."  # prefix: its model on its test shard
DIAGNOSTICS = "diagnostics."  # the prefix of what --diagnostics adds
DRIFT = f"{DIAGNOSTICS}drift"
LOCAL_MODEL = f"{DIAGNOSTICS}local_model"
ON_TEST = f"{LOCAL_MODEL}.on_test.accuracy"
ON_OWN_LABELS = f"{LOCAL_MODEL}.on_own_labels.accuracy"

# What a reply's metrics hold that is no figure.
ERROR = "error"  # why a client has nothing to send
PARTICIPANTS = "participants"  # in the one reply of a secure sum: how many clients trained
ANSWERED = "answered"  # and the partitions that it stands for: "0 2 3"


def declared_figures(run: Run) -> tuple[str, ...]:
    """All that the clients of a run may report, in a fixed order."""
    config = run.config
    if config.dp_params.name == "local":  # all that leaves such a client is its noised update
        return ()
    names = [TASK_TERM, STEPS, SAMPLES, SECONDS]
    if config.dp_params.active:
        names.append(CLIPPED)
    if config.scores_local_models:
        names += [f"{TEST_SHARD}{name}" for name in run.metric_names]
    if config.diagnostics:
        names += [ON_TEST, ON_OWN_LABELS]
        names += [name for method in config.method_list for name in method.diagnostics]
    names += [name for method in config.method_list for name in method.figures]
    return tuple(dict.fromkeys(names))


def check_declared(figures: Mapping[str, object], declared: Iterable[str]) -> None:
    """Raise a WireError that names the first figure which is not declared."""
    if undeclared := sorted(figures.keys() - set(declared)):
        raise WireError(
            f"the figure {undeclared[0]!r} is not declared by any method of this run; add it to"
            " `figures` of its declaration"
        )


def weighting_of(figure: str) -> Weighting:
    """How a figure is averaged over clients."""
    return "uniform" if figure == CLIPPED else "examples"
