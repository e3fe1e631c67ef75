"""What server-data="none" excludes: settings that need data on the server, and lines of data sets
that leave open what only reading them would tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedmirage.common.data.catalogue.base import DatasetParams, OwnParams
from fedmirage.common.data.catalogue.encoded import Embeddings
from fedmirage.common.data.catalogue.params import OwnTable
from fedmirage.common.method import Place
from fedmirage.common.settings.language import write

if TYPE_CHECKING:
    from fedmirage.common.settings.config import RunConfig
    from fedmirage.common.settings.lines import Lines

START = "server-data='none'"


def no_need_of_server_data(config: RunConfig, lines: Lines) -> list[str]:
    """A server without data cannot score, and neither can what depends on its scores."""
    if config.server_reads_data:
        return []
    asked = {
        "target": (config.target, "is an accuracy on the server's test set", "0"),
        "patience": (config.patience, "stops by the validation loss", "0"),
        "validation": (
            config.validation,
            "would hold out a second part of each site's data beside the one that scores the model",
            "0",
        ),
    }
    problems = [
        f"{START}: {key}={value:g} {why}; write {key}={off}"
        for key, (value, why, off) in asked.items()
        if value
    ]
    for method in lines.methods or ():
        if why := method.needs_server_data(config):
            problems.append(f"{START}: {method.name} {why}; drop it, or write server-data='test'")
        if method.place is Place.RELEASES:
            problems.append(
                f"{START}: {method.name} saves another model than the one that the sites get, so"
                " nobody could score it; drop it, or write server-data='test'"
            )
    return problems + [problem for params in lines.dataset or () for problem in find_open(params)]


def unscored(config: RunConfig) -> list[str]:
    """Say of a run without data on the server why nothing is scored, if nothing is."""
    if config.server_reads_data or config.scores_at_sites:
        return []
    local = config.dp_params.name == "local"
    why = (
        f"dp={config.dp!r} lets a client send nothing but its noised update"
        if local
        else f"secagg={config.secagg!r} would send every site's scores in clear"
    )
    return [
        f"{START}: no model of this run is scored, because {why}; score the last one at the sites,"
        " each on its own data"
    ]


def find_open(params: DatasetParams) -> list[str]:
    """Say in sentences what a dataset line leaves open that a server without data must know."""
    if isinstance(params, OwnTable):
        return []  # its schema says all that
    card, name = params.about(), write(params)
    start = f"server-data='none': the server does not read dataset={name!r}, so it must say "
    inner = params.inner if isinstance(params, Embeddings) else params
    problems = []
    named = bool(card.classes) if isinstance(inner, OwnParams) else bool(card.class_count)
    if not named:
        problems.append(
            start + 'which classes there are; write classes=("NAME", "NAME", ...) with the names of'
            " all"
        )
    if params.known_shape is None:
        problems.append(f"{start}what form the inputs have; write {params.missing_shape}")
    if params.scaled_by_content:
        problems.append(
            f"server-data='none': the inputs of {name} are scaled by numbers that only reading them"
            " gives; write server-data='test'"
        )
    return problems
