"""The lines of the small language that a configuration holds, read once and kept as a value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fedmirage.common.data.catalogue.params import DATASETS, DatasetParams
from fedmirage.common.data.partitions.params import PARTITIONS, PartitionParams
from fedmirage.common.dp.settings import DP, DpParams
from fedmirage.common.errors import collect
from fedmirage.common.learning.schedules import SCHEDULES, Schedule
from fedmirage.common.methods import METHODS, Method
from fedmirage.common.models.params import ModelParams, read_model
from fedmirage.common.secagg.settings import SECAGG, SecAggParams
from fedmirage.common.settings.language import resolve_line, resolve_one

T = TypeVar("T")


@dataclass(frozen=True)
class Lines:
    """What the lines of a configuration say; None stands for a line that could not be read."""

    methods: tuple[Method, ...] | None
    dataset: tuple[DatasetParams, ...] | None
    partition: PartitionParams | None
    model: ModelParams | None
    secagg: SecAggParams | None
    dp: DpParams | None
    schedule: Schedule | None


def read_lines(settings: Mapping[str, Any]) -> tuple[Lines, list[str]]:
    """Read every line by itself, so that the problems of all lines are reported together.

    A line that is missing or is not a string has already been refused as a setting: it becomes
    None without a second error.
    """
    problems: list[str] = []

    def read(key: str, resolve: Callable[[str], T]) -> T | None:
        text = settings.get(key)
        if not isinstance(text, str):
            return None
        with collect(problems):
            return resolve(text)
        return None

    lines = Lines(
        methods=read("methods", lambda text: tuple(resolve_line(text, METHODS, "methods"))),
        dataset=read("dataset", lambda text: tuple(resolve_line(text, DATASETS, "dataset"))),
        partition=read("partition", lambda text: resolve_one(text, PARTITIONS, "partition")),
        model=read("model", read_model),
        secagg=read("secagg", lambda text: resolve_one(text, SECAGG, "secagg")),
        dp=read("dp", lambda text: resolve_one(text, DP, "dp")),
        schedule=read("schedule", lambda text: resolve_one(text, SCHEDULES, "schedule")),
    )
    return lines, problems
