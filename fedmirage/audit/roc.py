"""The ROC curve of an attack on membership, its area, and its ends at few false positives.

What counts is how many members an attack finds while it hardly ever accuses anybody else (Carlini,
Chien, Nasr, Song, Terzis, Tramer: Membership inference attacks from first principles, IEEE S&P
2022). An area says little about that.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

LOW = (0.01, 0.001)  # the shares of false positives at which members are counted
POINTS = 200
LEVEL = 1.959964  # standard deviations of a 95 % interval


@dataclass(frozen=True)
class Roc:
    """The shares of false and of true positives, from the strictest threshold to the laxest."""

    false: Tensor
    true: Tensor
    others: int  # how many could be falsely accused
    area: float
    margin: float  # half of the area's 95 % interval

    def found_at(self, share: float) -> float | None:
        """The share of members found with at most this share of false positives.

        None if there are too few others for a share so small.
        """
        few = self.others * share < 1
        return None if few else float(self.true[self.false <= share].max())

    def thin(self) -> list[tuple[float, float]]:
        """Choose points that show the curve on logarithmic axes, at most so many."""
        places = torch.logspace(0, math.log10(len(self.false)), POINTS).round().long() - 1
        chosen = sorted(set(places.tolist()))
        return list(zip(self.false[chosen].tolist(), self.true[chosen].tolist(), strict=True))


def make_roc(members: Tensor, others: Tensor) -> Roc:
    """Compare the scores of members with those of others; a member should score higher."""
    thresholds = torch.cat((members, others)).sort(descending=True).values
    false, true = (
        torch.cat((torch.zeros(1), count_above(scores, thresholds))) for scores in (others, members)
    )
    area, margin = measure_area(members, others)
    return Roc(false, true, len(others), area, margin)


def count_above(scores: Tensor, thresholds: Tensor) -> Tensor:
    """Return the share of the scores that reach each threshold."""
    below = torch.searchsorted(scores.sort().values, thresholds)
    return (len(scores) - below) / len(scores)


def measure_area(members: Tensor, others: Tensor) -> tuple[float, float]:
    """Return the area under the curve, and half of its 95 % interval (DeLong et al. 1988).

    The area is how often a member scores higher than another sample; ties count half.
    """
    won_by_members, lost_to_members = (
        _place(one.double(), other.double())
        for one, other in ((members, others), (others, members))
    )
    variance = won_by_members.var() / len(members) + lost_to_members.var() / len(others)
    return float(won_by_members.mean()), LEVEL * math.sqrt(float(variance))


def _place(scores: Tensor, others: Tensor) -> Tensor:
    """Return, for each score, the share of the others that is lower."""
    ordered = others.sort().values
    below = torch.searchsorted(ordered, scores)
    not_above = torch.searchsorted(ordered, scores, right=True)
    return (below + not_above).double() / (2 * len(others))


def draw_rocs(curves: Mapping[str, Roc], path: Path) -> Path:
    """Draw curves with logarithmic axes; the dashed diagonal is a guess."""
    figure = Figure(figsize=(5, 4.6), layout="constrained")
    axes = figure.subplots()
    for number, (name, roc) in enumerate(curves.items()):
        style = ("-", "--", "-.", ":")[number % 4]
        axes.step(roc.false, roc.true, style, where="post", label=f"{name}: {roc.area:.3f}")
    least = 1 / max(roc.others for roc in curves.values())
    axes.plot([least, 1], [least, 1], "--", color="grey", linewidth=1, label="guessing: 0.5")
    axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1))
    axes.set(xlabel="share of others taken for members", ylabel="share of members found")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right", title="area under the curve", title_fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    return path
