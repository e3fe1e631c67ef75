"""One client's message as one vector of numbers that may be added up, and what the sum of such
vectors says.

    client   v_i = [ 1, n_i/bound | for every section p_i (what it sends), for `shared` p_i (w_i -
             w) | figures ] p_i = n_i/bound where a section is weighted by examples, 1 where all
             clients count alike, 0 if it did not train a figure that a client lacks, or that is not
             finite, counts as 0: who has one would otherwise be seen
    server   sum_i v_i; a section's mean is its sum over the sum of the p_i, and `shared` is w plus
             that

Weights are inside the vector, so that nothing but the sum is seen, and clients of 10 and of 60,000
examples are both exact. Numbers lie on the grid of secure aggregation (secagg.step), within +-clip,
so that one seed gives the same bits again. Those that may be large (figures, counts, running
statistics) take two places: whole units, and the rest magnified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from common.dp.settings import CLIPPED, LocalDp
from common.errors import FedmirageError, WireError
from common.learning.task import Task
from common.method import Weighting
from common.secagg.settings import SecAggOn
from common.settings.config import RunConfig
from common.wire.payload import SHARED, Array, Arrays, Sections

Vector = npt.NDArray[np.float64]
WIDE_BITS = 19  # numbers that take two places may be as large as 2^19

COUNTS = 2  # the first two wide numbers: 1 if the client trained, and n_i/bound


@dataclass(frozen=True)
class Entry:
    """One array of a message."""

    section: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    weighting: Weighting
    wide: bool  # whether its numbers may be larger than clip

    @property
    def size(self) -> int:
        """Numbers in it."""
        return int(np.prod(self.shape, dtype=np.int64))


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

    def __init__(
        self,
        config: RunConfig,
        names: Sequence[str],
        shared: Arrays,
        trainable: Sequence[bool],
        task: Task,
        classes: int,
    ) -> None:
        assert isinstance(config.secagg_params, SecAggOn)
        self.secagg = config.secagg_params
        self.figures = figure_names(config, task, classes)
        weights = list(zip(names, shared, trainable, strict=True))
        self.entries = [
            Entry(SHARED, name, array.shape, array.dtype, config.weighs, not trained)
            for name, array, trained in weights
        ]
        for section in (section for method in config.method_list for section in method.up):
            weighting = config.weighs if section.weighting == "run" else section.weighting
            assert weighting is not None  # refused together with secagg before the start
            if section.holds == "number":
                self.entries.append(
                    Entry(
                        section.name, section.name, (1,), np.dtype(np.float64), weighting, wide=True
                    )
                )
            else:
                self.entries += [
                    Entry(section.name, name, array.shape, array.dtype, weighting, wide=False)
                    for name, array, trained in weights
                    if trained
                ]

        self.wide = (
            COUNTS + len(self.figures) + sum(entry.size for entry in self.entries if entry.wide)
        )  # of two places each
        self.size = 2 * self.wide + sum(
            entry.size for entry in self.entries if not entry.wide
        )  # of the vector

    # On the client

    def encode(
        self, sections: Sections, reference: Arrays, examples: int, figures: Mapping[str, float]
    ) -> Vector:
        """What a client adds to the sum; refuses what cannot be masked, without telling its
        size."""
        if examples > self.secagg.bound:
            raise FedmirageError(
                f"it has more examples than secagg's bound={self.secagg.bound}; raise bound"
            )
        share, trained = examples / self.secagg.bound, float(examples > 0)
        weights: dict[Weighting, float] = {"examples": share, "uniform": trained}
        sent = {name: iter(arrays) for name, arrays in sections.items()}
        before = iter(reference)
        narrow: Arrays = []
        wide: Arrays = [np.array([trained, share])]
        for entry in self.entries:
            array = next(sent[entry.section]).astype(np.float64)
            if entry.section == SHARED:
                array -= next(before)
            array *= weights[entry.weighting]
            if not np.isfinite(array).all():
                raise FedmirageError(
                    f"its {entry.name!r} ({entry.section}) is not finite; lower lr"
                )
            if np.abs(array).max(initial=0) > (2**WIDE_BITS if entry.wide else self.secagg.clip):
                limit = (
                    f"2^{WIDE_BITS}); lower lr"
                    if entry.wide
                    else f"clip={self.secagg.clip:g}); raise clip, or lower lr"
                )
                raise FedmirageError(
                    f"its {entry.name!r} ({entry.section}) leaves the range that secagg can mask"
                    f" ({limit}"
                )
            (wide if entry.wide else narrow).append(array.ravel())
        wide.append(self._figures(figures, weights))
        return np.concatenate([*self._split(np.concatenate(wide)), *map(self._on_grid, narrow)])

    def _figures(self, figures: Mapping[str, float], weights: Mapping[Weighting, float]) -> Vector:
        """Every figure under one weight for all clients."""
        if undeclared := sorted(figures.keys() - set(self.figures)):
            raise FedmirageError(
                f"the figure {undeclared[0]!r} is not on the page of any method of this run; add it"
                " to `figures`"
            )
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
            {entry.section: Arrays() for entry in self.entries} | {SHARED: Arrays()},
        )
        places = {True: COUNTS, False: 0}
        for entry in self.entries:
            start = places[entry.wide]
            places[entry.wide] += entry.size
            mean = (wide if entry.wide else narrow)[start : places[entry.wide]].reshape(
                entry.shape
            ) / totals[entry.weighting]
            sections[entry.section].append(
                (mean + next(before) if entry.section == SHARED else mean).astype(entry.dtype)
            )
        figures = {
            name: value / totals[weighting_of(name)]
            for name, value in zip(self.figures, wide[places[True] :].tolist(), strict=True)
        }
        return SecureMeans(sections, clients, round(share * self.secagg.bound), figures)

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


def figure_names(config: RunConfig, task: Task, classes: int) -> tuple[str, ...]:
    """All that the clients of a run may report, in a fixed order."""
    if isinstance(config.dp_params, LocalDp):
        return ()
    names = [
        "term.task",
        "steps",
        "samples",
        "seconds",
        *([CLIPPED] if config.dp_params.active else []),
    ]
    if config.scores_local_models:
        widened = any(method.extra_outputs(classes) for method in config.method_list)
        metrics = (*task.metrics, "accuracy_real_classes") if widened else task.metrics
        names += [f"local_model.on_test_shard.by_examples.{name}" for name in metrics]
    return tuple(
        dict.fromkeys([*names, *(name for method in config.method_list for name in method.figures)])
    )


def weighting_of(figure: str) -> Weighting:
    """How a figure is averaged, as without secure aggregation."""
    return "uniform" if figure == CLIPPED else "examples"
