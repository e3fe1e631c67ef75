"""A client's message as one vector of numbers, and how the means follow from the vectors' sum.

A client sends

    v_i = [ 1, n_i / max_examples | p_i (w_i - w) | for every other section p_i s_i | metrics ]

where p_i is n_i / max_examples for a section that is weighted by examples, 1 if all clients count
equally, and 0 for a client that did not train. A missing metric, or one that is not finite, is
sent as 0; otherwise the sum would reveal which clients reported it. The server learns sum_i v_i:
the mean of a section is its sum over the sum of the p_i, and `shared` is w plus that mean.

Weights are inside the vector, so the server sees nothing but the sum, and the steps are fine enough
for clients with 10 and with 60,000 examples in one round. Numbers within +-clip are rounded to
whole steps, so one seed gives the same bits again. Numbers that may be large (metrics, counts,
running statistics) are wide: they take two elements of the vector, one for whole units and one for
the magnified rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.method import Weighting
from fedmirage.common.run import Run
from fedmirage.common.secagg.keys import Steps
from fedmirage.common.secagg.settings import SecAggOn
from fedmirage.common.wire.held_out import summed_names, to_sums
from fedmirage.common.wire.manifest import Entry
from fedmirage.common.wire.metrics import check_declared, declared_metrics, weighting_of
from fedmirage.common.wire.payload import SHARED, Array, Arrays, Sections

Vector = npt.NDArray[np.float64]
WIDE_BITS = 19  # wide numbers may be as large as 2^19
COUNTS = 2  # the first two wide numbers: 1 if the client trained, and n_i / max_examples


@dataclass(frozen=True)
class Slot:
    """How one array of a message is entered into the vector."""

    section: str
    entry: Entry
    weighting: Weighting
    wide: bool  # whether its numbers may be larger than clip, and take two elements each
    least: float | None = None  # the smallest number that a client can have sent

    @property
    def size(self) -> int:
        """How many numbers the array holds."""
        return self.entry.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the array's mean."""
        return self.entry.dtype or np.dtype(np.float64)


@dataclass(frozen=True)
class SecureMeans:
    """All that the server learns from a round."""

    sections: Sections
    clients: int  # how many clients trained
    examples: int  # how many examples they have together
    metrics: dict[str, float]


class SecureVector:
    """Encodes messages as vectors and decodes their sum.

    Both sides derive the order of the vector from the run's configuration and the shared weights.
    """

    def __init__(self, run: Run, with_sections: bool = True) -> None:
        config = run.config
        assert isinstance(config.secagg_params, SecAggOn)
        self.run, self.secagg = run, config.secagg_params
        self.metrics = summed_names(declared_metrics(run))
        self.slots = [
            Slot(SHARED, entry, config.weighs, wide=not entry.trainable)
            for entry in (run.shared if with_sections else ())
        ]
        for section in run.sections if with_sections else ():
            weighting = config.weighs if section.weighting == "run" else section.weighting
            entries = run.entries_of(section)
            assert weighting is not None  # refused together with secagg before the start
            assert entries is not None
            wide = section.wide or section.holds == "number"
            self.slots += [
                Slot(section.name, entry, weighting, wide, section.least) for entry in entries
            ]
        wide_numbers = sum(slot.size for slot in self.slots if slot.wide)
        self.wide = COUNTS + len(self.metrics) + wide_numbers  # how many numbers are wide
        # The elements of the whole vector.
        self.size = 2 * self.wide + sum(slot.size for slot in self.slots if not slot.wide)

    @property
    def only_metrics(self) -> SecureVector:
        """The vector of a client that trains nothing and sends metrics alone."""
        return SecureVector(self.run, with_sections=False)

    # On the client

    def encode(
        self, sections: Sections, reference: Arrays, examples: int, metrics: Mapping[str, float]
    ) -> Steps:
        """A client's vector; refuses what cannot be masked, without revealing how large it is."""
        if examples > self.secagg.max_examples:
            raise FedmirageError(
                "it has more examples than secagg's"
                f" max_examples={self.secagg.max_examples}; raise max_examples"
            )
        share, trained = examples / self.secagg.max_examples, float(examples > 0)
        weights: dict[Weighting, float] = {"examples": share, "uniform": trained}
        sent = {name: iter(arrays) for name, arrays in sections.items()}
        before = iter(reference)
        narrow: Arrays = []
        wide: Arrays = [np.array([trained, share])]
        for slot in self.slots:
            array = next(sent[slot.section]).astype(np.float64)
            if slot.section == SHARED:
                array -= next(before)
            array *= weights[slot.weighting]
            if not np.isfinite(array).all():
                raise FedmirageError(
                    f"its {slot.entry.name!r} ({slot.section}) is not finite; lower lr"
                )
            if np.abs(array).max(initial=0) > (2**WIDE_BITS if slot.wide else self.secagg.clip):
                limit = (
                    f"2^{WIDE_BITS}); lower lr"
                    if slot.wide
                    else f"clip={self.secagg.clip:g}); raise clip, or lower lr"
                )
                raise FedmirageError(
                    f"its {slot.entry.name!r} ({slot.section}) exceeds the range that secagg can"
                    f" mask ({limit}"
                )
            (wide if slot.wide else narrow).append(array.ravel())
        wide.append(self._weigh(metrics, weights))
        return np.concatenate([*self._split(np.concatenate(wide)), *map(self._count_steps, narrow)])

    def _weigh(self, metrics: Mapping[str, float], weights: Mapping[Weighting, float]) -> Vector:
        """All declared metrics in order, each times its weight; a missing metric is 0."""
        summed = to_sums(metrics, self.secagg.max_examples)
        check_declared(summed, self.metrics)
        values = np.nan_to_num(
            np.array([summed.get(name, 0.0) for name in self.metrics]), posinf=0, neginf=0
        )
        weighed = np.clip(values, -(2.0**WIDE_BITS), 2.0**WIDE_BITS) * [
            weights[weighting_of(name)] for name in self.metrics
        ]
        return np.asarray(weighed, dtype=np.float64)

    # On the server

    def decode(self, sums: Steps, reference: Arrays, active: int) -> SecureMeans | None:
        """The means that follow from the sum of so many vectors; None if nobody trained."""
        most = active * 2 ** (self.secagg.bits - 1)
        if sums.max(initial=0) > most or sums.min(initial=0) < -most:
            raise WireError(
                f"the sum holds numbers that {active} clients cannot have sent; a client's vector"
                " was not the one that its masks belong to"
            )
        wide, narrow = self._join(sums[: 2 * self.wide]), sums[2 * self.wide :] * self.secagg.step
        self._check_counts(float(wide[0]), float(wide[1]), active)
        clients, share = round(wide[0]), float(wide[1])
        if clients < 1:
            return None
        totals: dict[Weighting, float] = {"examples": share, "uniform": float(clients)}
        before, sections = (
            iter(reference),
            {slot.section: Arrays() for slot in self.slots} | {SHARED: Arrays()},
        )
        ends = {True: COUNTS, False: 0}  # how much of wide and of narrow has been read
        for slot in self.slots:
            start = ends[slot.wide]
            ends[slot.wide] += slot.size
            mean = (wide if slot.wide else narrow)[start : ends[slot.wide]].reshape(
                slot.entry.shape
            ) / totals[slot.weighting]
            self._check_least(slot, mean, active / totals[slot.weighting])
            sections[slot.section].append(
                (mean + next(before) if slot.section == SHARED else mean).astype(slot.dtype)
            )
        metrics = {
            name: value / totals[weighting_of(name)]
            for name, value in zip(self.metrics, wide[ends[True] :].tolist(), strict=True)
        }
        return SecureMeans(sections, clients, round(share * self.secagg.max_examples), metrics)

    def _check_counts(self, trained: float, share: float, active: int) -> None:
        """Refuse a sum that so many honest clients cannot have: a false count scales everything."""
        slack = active * self.unit * 2.0**-self.secagg.bits  # every client rounds its own numbers
        clients, least = round(trained), trained / self.secagg.max_examples
        if abs(trained - clients) > slack or not 0 <= clients <= active:
            raise WireError(f"the sum says that {trained:g} of {active} clients trained")
        if not least - slack <= share <= clients + slack:
            raise WireError(
                f"the sum says that {clients} clients have"
                f" {share * self.secagg.max_examples:g} examples together, which is impossible if"
                f" each has 1 to {self.secagg.max_examples}; a client has sent false counts"
            )

    def _check_least(self, slot: Slot, mean: Array, clients: float) -> None:
        """Refuse a mean that is below what any client can have sent, but for rounding."""
        slack = clients * (self.unit * 2.0**-self.secagg.bits if slot.wide else self.secagg.step)
        if slot.least is not None and mean.min(initial=slot.least) < slot.least - slack:
            raise WireError(
                f"the sum says that {slot.section!r} is {mean.min():g} on average, which is below"
                f" {slot.least:g}; a client has sent a false one"
            )

    # Rounded and wide numbers

    @property
    def unit(self) -> float:
        """The value of one step of a wide number's first element."""
        return float(2.0 ** (WIDE_BITS + 1 - self.secagg.bits))

    def _count_steps(self, values: Array) -> Steps:
        return np.rint(values / self.secagg.step).astype(np.int64)

    def _split(self, values: Vector) -> tuple[Steps, Steps]:
        """Two elements per number: whole units, and the rest, magnified to +-clip/2."""
        whole = np.rint(values / self.unit)
        rest = (values - whole * self.unit) * (self.secagg.clip / self.unit)
        return whole.astype(np.int64), self._count_steps(rest)

    def _join(self, pairs: Steps) -> Vector:
        """The sums of wide numbers from the sums of their two elements."""
        whole, rest = np.split(pairs, 2)
        return np.asarray(
            whole * self.unit + rest * self.secagg.step * (self.unit / self.secagg.clip),
            dtype=np.float64,
        )
