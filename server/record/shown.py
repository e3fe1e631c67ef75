"""Describes a round or a run in one line, for terminals and logs."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedmirage.common.wire.metrics import AVERAGE_SCORES, TEST_SHARD
from fedmirage.server.strategy.budget import spent

SHARD = f"{TEST_SHARD}accuracy"  # FedMD-CG's L.acc
AVERAGE = f"{AVERAGE_SCORES}accuracy"  # its G.acc
# The two means over what the sites hold out, and what they are called.
SITE_MEANS = {"by_examples": "weighted by examples", "by_sites": "every site once"}
PIECES = 8  # partitions, or ranges of them, that are listed


def describe_scores(line: dict[str, Any]) -> str:
    """Describe the metrics of a round in one line."""
    shown = {
        "accuracy": line.get("accuracy"),
        "loss": line.get("loss"),
        "validation loss": line.get("validation", {}).get("loss"),
    }
    shown |= {} if line.get("accuracy") is not None else local_scores(line.get("evaluation", {}))
    shown["train"] = line["train"].get("task")
    texts = [f"{name} {value:.4f}" for name, value in shown.items() if value is not None]
    return ", ".join(texts + ([spent(line["dp"])] if "dp" in line else []))


def describe_sites(line: Mapping[str, Any]) -> str:
    """Describe in one line how a model does on what the sites hold out."""
    whose = "" if line["model"] == "global" else ", each site's own model"
    means = {label: line[kind]["accuracy"] for kind, label in SITE_MEANS.items() if line[kind]}
    shown = ", ".join(f"{label} {mean:.4f}" for label, mean in means.items()) or "unknown"
    held = f"held-out data of {line['holding']} of {line['holding'] + line['without']} sites"
    return f"round {line['round']} on the {held}{whose}: accuracy {shown}"


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
    sites = summary.get("final_held_out", {})
    texts += [
        f"final accuracy at the sites {100 * sites[kind]['accuracy']:.2f} % ({label})"
        for kind, label in SITE_MEANS.items()
        if sites.get(kind)
    ]
    texts += [f"{name} never acted: {why}" for name, why in summary.get("idle", {}).items()]
    return "; ".join(texts + ([str(summary["reason"])] if "reason" in summary else []))


def fold(
    refused: Iterable[Mapping[str, Any]], names: Mapping[int, str] | None = None
) -> dict[str, str]:
    """Return the reasons why clients were left out, each once, by the clients that share it.

    `names` are those of sites, by partition.
    """
    whose: dict[str, list[int]] = {}
    for entry in refused:
        whose.setdefault(str(entry["reason"]), []).append(int(entry["partition"]))
    return {call_clients(some, names or {}): reason for reason, some in whose.items()}


def call_clients(partitions: Iterable[int], names: Mapping[int, str]) -> str:
    """Call clients by the names of their sites, and those without one by their numbers."""
    numbers = [partition for partition in sorted(partitions) if not names.get(partition)]
    called = [names[partition] for partition in sorted(partitions) if names.get(partition)]
    if numbers:
        called.append(f"client{'s' * (len(numbers) > 1)} {list_partitions(numbers)}")
    return ", ".join(called)


def list_partitions(partitions: Iterable[int]) -> str:
    """List partitions, neighbours as a range: "0 to 4, 7", and after a few pieces "and more"."""
    ranges: list[list[int]] = []
    for partition in sorted(partitions):
        if ranges and partition == ranges[-1][-1] + 1:
            ranges[-1].append(partition)
        else:
            ranges.append([partition])
    pieces: list[str] = []
    for one in ranges:
        pieces += [f"{one[0]} to {one[-1]}"] if len(one) > 2 else map(str, one)
    return ", ".join(pieces[:PIECES]) + (" and more" if len(pieces) > PIECES else "")
