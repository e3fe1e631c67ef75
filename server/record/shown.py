"""Describes a round or a run in one line, for terminals and logs."""

from typing import Any

from fedmirage.common.wire.figures import AVERAGE_SCORES, TEST_SHARD
from fedmirage.server.strategy.budget import spent

SHARD = f"{TEST_SHARD}accuracy"  # FedMD-CG's L.acc
AVERAGE = f"{AVERAGE_SCORES}accuracy"  # its G.acc


def describe_scores(line: dict[str, Any]) -> str:
    """Describe the figures of a round in one line."""
    shown = {
        "accuracy": line.get("accuracy"),
        "loss": line.get("loss"),
        "validation loss": line.get("validation", {}).get("loss"),
    }
    shown |= {} if line.get("accuracy") is not None else local_scores(line.get("evaluation", {}))
    shown["train"] = line["train"].get("task")
    texts = [f"{name} {value:.4f}" for name, value in shown.items() if value is not None]
    return ", ".join(texts + ([spent(line["dp"])] if "dp" in line else []))


def local_scores(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of the local models, which replace `accuracy` where there is no global one.

    Their names say what was scored, on what, and how clients are weighted.
    """
    return {
        name.replace("_", " ").replace(".", " "): evaluation[name]
        for name in (SHARD, AVERAGE)
        if name in evaluation
    }


def describe_outcome(summary: dict[str, Any]) -> str:
    """Say in a sentence how a run ended."""
    score = summary.get("final_accuracy")
    texts = [f"{summary['status']} after round {summary['rounds']}"]
    texts += [f"final accuracy {100 * score:.2f} %"] if score is not None else []
    texts += [f"{name} never acted: {why}" for name, why in summary.get("idle", {}).items()]
    return "; ".join(texts + ([str(summary["reason"])] if "reason" in summary else []))
