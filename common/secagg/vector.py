"""One client's message as one vector of numbers that may be added up, and what the sum says.

A client sends

    v_i = [ 1, n_i / max_examples | p_i (w_i - w) | for every other section p_i s_i | figures ]

where p_i is n_i / max_examples for a section that is weighted by examples, 1 where all clients
count alike, and 0 for a client that did not train. A missing figure, or one that is not finite, is
sent as 0; otherwise the sum would reveal which clients reported it. The server learns sum_i v_i:
the mean of a section is its sum over the sum of the p_i, and `shared` is w plus that mean.

Weights are inside the vector, so that the server sees nothing but the sum, and clients of 10 and of
60,000 examples are both exact. Numbers lie on the steps of secure aggregation, within +-clip, so
that one seed gives the same bits again. Those that may be large (figures, counts, running
statistics) take two places: whole units, and the rest magnified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from common.errors import FedmirageError, WireError
from common.method import Weighting
from common.run import Run
from common.secagg.settings import SecAggOn
from common.wire.figures import check_declared, declared_figures, weighting_of
from common.wire.manifest import Entry
from common.wire.payload import SHARED, Array, Arrays, Sections

Vector = npt.NDArray[np.float64]
WIDE_BITS = 19  # numbers that take two places may be as large as 2^19

COUNTS = 2  # the first two wide numbers: 1 if the client trained, and n_i/max_examples


@dataclass(frozen=True)
class Slot:
    """Where one array of a message goes."""

    section: str
    entry: Entry
    weighting: Weighting
    wide: bool  # whether its numbers may be larger than clip, and take two places each

    @property
    def size(self) -> int:
        """Numbers in it."""
        return self.entry.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """What its mean is given back as."""
        return self.entry.dtype or np.dtype(np.float64)


@dataclass(frozen=True)
class SecureMeans:
    """What the server learns of a round."""

    sections: Sections
    clients: int  # that trained
    examples: int  # of all of them
    figures: dict[str, float]


class SecureVector:
    """The order of the vector, which both sides derive from the run's configuration and the shared
    weights."""

    def __init__(self, run: Run) -> None:
        config = run.config
        assert isinstance(config.secagg_params, SecAggOn)
        self.secagg = config.secagg_params
        self.figures = declared_figures(run)
        self.slots = [
            Slot(SHARED, entry, config.weighs, wide=not entry.trainable) for entry in run.shared
        ]
        for section in run.sections:
            weighting = config.weighs if section.weighting == "run" else section.weighting
            entries = run.entries_of(section)
            assert weighting is not None  # refused together with secagg before the start
            assert entries is not None
            wide = section.wide or section.holds == "number"
            self.slots += [Slot(section.name, entry, weighting, wide) for entry in entries]
        wide_numbers = sum(slot.size for slot in self.slots if slot.wide)
        self.wide = COUNTS + len(self.figures) + wide_numbers  # numbers of two places each
        # Of the whole vector:
        self.size = 2 * self.wide + sum(slot.size for slot in self.slots if not slot.wide)

    # On the client

    def encode(
        self, sections: Sections, reference: Arrays, examples: int, figures: Mapping[str, float]
    ) -> Vector:
        """What a client adds to the sum; refuses what cannot be masked, without telling its
        size."""
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
                    f"its {slot.entry.name!r} ({slot.section}) leaves the range that secagg can"
                    f" mask ({limit}"
                )
            (wide if slot.wide else narrow).append(array.ravel())
        wide.append(self._figures(figures, weights))
        return np.concatenate([*self._split(np.concatenate(wide)), *map(self._on_grid, narrow)])

    def _figures(self, figures: Mapping[str, float], weights: Mapping[Weighting, float]) -> Vector:
        """Every figure under one weight for all clients."""
        check_declared(figures, self.figures)
        values = np.nan_to_num(
            np.array([figures.get(name, 0.0) for name in self.figures]), posinf=0, neginf=0
        )
        weighed = np.clip(values, -(2.0**WIDE_BITS), 2.0**WIDE_BITS) * [
            weights[weighting_of(name)] for name in self.figures
        ]
        return np.asarray(weighed, dtype=np.float64)

    # On the server

    def decode(self, sums: Vector, reference: Arrays) -> SecureMeans | None:
        """The means that a sum stands for; None if nobody trained."""
        wide, narrow = self._join(sums[: 2 * self.wide]), sums[2 * self.wide :]
        clients, share = round(wide[0]), float(wide[1])
        if clients < 1:
            return None
        if share <= 0:
            raise WireError(f"the sum has {clients} clients that trained, and no examples")
        totals: dict[Weighting, float] = {"examples": share, "uniform": float(clients)}
        before, sections = (
            iter(reference),
            {slot.section: Arrays() for slot in self.slots} | {SHARED: Arrays()},
        )
        places = {True: COUNTS, False: 0}
        for slot in self.slots:
            start = places[slot.wide]
            places[slot.wide] += slot.size
            mean = (wide if slot.wide else narrow)[start : places[slot.wide]].reshape(
                slot.entry.shape
            ) / totals[slot.weighting]
            sections[slot.section].append(
                (mean + next(before) if slot.section == SHARED else mean).astype(slot.dtype)
            )
        figures = {
            name: value / totals[weighting_of(name)]
            for name, value in zip(self.figures, wide[places[True] :].tolist(), strict=True)
        }
        return SecureMeans(sections, clients, round(share * self.secagg.max_examples), figures)

    # Numbers on the grid

    @property
    def unit(self) -> float:
        """What one step of the first place of a wide number stands for."""
        return float(2.0 ** (WIDE_BITS + 1 - self.secagg.bits))

    def _on_grid(self, values: Array) -> Vector:
        return np.asarray(np.rint(values / self.secagg.step) * self.secagg.step, dtype=np.float64)

    def _split(self, values: Vector) -> tuple[Vector, Vector]:
        """Two places a number: whole units as steps of the grid, and what is left, magnified to
        +-clip/2."""
        whole = np.rint(values / self.unit)
        return whole * self.secagg.step, self._on_grid(
            (values - whole * self.unit) * (self.secagg.clip / self.unit)
        )

    def _join(self, pairs: Vector) -> Vector:
        """The sums of numbers from the sums of their two places."""
        whole, rest = np.split(pairs, 2)
        return np.asarray(
            np.rint(whole / self.secagg.step) * self.unit + rest * (self.unit / self.secagg.clip),
            dtype=np.float64,
        )
