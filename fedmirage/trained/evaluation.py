"""Evaluates a trained model on samples with labels: scores with intervals, by class and group."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedmirage.trained.labelled import Labelled
from fedmirage.trained.model import TrainedModel
from fedmirage.trained.resampling import (
    BINS,
    GROUP,
    LEVEL,
    Numbers,
    Outcomes,
    collect_outcomes,
    compute_intervals,
    compute_scores,
)

OVERALL = ("accuracy", "balanced_accuracy", "macro_f1", "auc", "ece", "loss")


def evaluate(
    model: TrainedModel, samples: Labelled, resamples: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Return all scores as values for JSON; each has its interval if there are resamples."""
    logits = model.compute_logits(samples.inputs)
    groups = {
        name: np.eye(len(names))[positions] for name, (names, positions) in samples.groups.items()
    }
    outcomes = collect_outcomes(logits, model.to_probabilities(logits), samples.labels, groups)
    once = compute_scores(outcomes, np.ones((1, len(samples.labels))))
    ends = compute_intervals(outcomes, resamples, seed)
    facts, classes = model.facts, model.facts.classes
    overall = {name: _tell(once[name], ends.get(name)) for name in OVERALL if name in once}
    counted = outcomes.true.sum(0)
    return {
        "dataset": samples.line,
        "what": samples.what,
        "samples": len(samples.labels),
        "methods": facts.methods,
        "round": facts.round,
        "task": facts.task,
        "scores": {name: told for name, told in overall.items() if told["value"] is not None},
        "classes": [
            {
                "name": name,
                "samples": int(counted[at]),
                "recall": _tell(once["recall"], ends.get("recall"), at),
            }
            for at, name in enumerate(classes)
        ],
        "groups": {
            name: _tell_groups(name, samples, outcomes, once, ends) for name in samples.groups
        },
        "calibration": _tell_bins(outcomes),
        **({"confusion": _count_confusion(outcomes)} if outcomes.single else {}),
        "bootstrap": {"resamples": resamples, "seed": seed, "level": LEVEL},
        "remarks": samples.remarks,
    }


def _tell(once: Numbers, ends: Numbers | None, at: int | None = None) -> dict[str, float | None]:
    """Return a score with both ends of its interval; None stands for what cannot be said."""
    cell = (0,) if at is None else (0, at)
    told = {"value": _finite(once[cell])}
    if ends is not None:
        low, high = (ends[side] if at is None else ends[side, at] for side in (0, 1))
        told |= {"low": _finite(low), "high": _finite(high)}
    return told


def _finite(value: Any) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


def _tell_groups(
    name: str,
    samples: Labelled,
    outcomes: Outcomes,
    once: dict[str, Numbers],
    ends: dict[str, Numbers],
) -> list[dict[str, Any]]:
    counted = outcomes.groups[name].sum(0)
    key = GROUP + name
    return [
        {
            "name": group,
            "samples": int(counted[at]),
            "accuracy": _tell(once[key], ends.get(key), at),
        }
        for at, group in enumerate(samples.groups[name][0])
    ]


def _tell_bins(outcomes: Outcomes) -> list[dict[str, Any]]:
    """Say of every bin how many probabilities lie in it, their mean, and how many came true."""
    inside, sure, came_true = (part.sum(0) for part in outcomes.bins)
    return [
        {
            "from": round(at / BINS, 6),
            "to": round((at + 1) / BINS, 6),
            "count": int(inside[at]),
            "probability": _finite(sure[at] / inside[at]) if inside[at] else None,
            "frequency": _finite(came_true[at] / inside[at]) if inside[at] else None,
        }
        for at in range(BINS)
    ]


def _count_confusion(outcomes: Outcomes) -> list[list[int]]:
    """Count answers (columns) by true class (rows)."""
    table: list[list[int]] = (outcomes.true.T @ outcomes.answers).astype(int).tolist()
    return table
