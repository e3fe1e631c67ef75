"""Commands that list what a setting accepts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmirage.commands.console import out
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.language import Params
from fedmirage.settings.layers import PRESETS, find, read_preset


def name_of(what: str) -> Any:
    """Make the argument with which one entry of a list is explained."""
    return typer.Argument(help=f"One {what}, with everything you can set.")


def methods(name: Annotated[str | None, name_of("method")] = None) -> None:
    """List what --methods accepts: every method, what it sends, and whether it goes with --secagg.

    With a name: how one round of it goes, its paper, and its parameters.
    """
    from fedmirage.common.methods import METHODS
    from fedmirage.show.catalogue import show_method, show_methods

    show_methods(out) if name is None else show_method(out, find(METHODS, name, "method"))


def models(name: Annotated[str | None, name_of("model")] = None) -> None:
    """List what --model accepts: every network, its parameters and its size on usual data."""
    from fedmirage.common.models.params import MODELS
    from fedmirage.show.catalogue import show_entry, show_models

    show_models(out) if name is None else show_entry(out, find(MODELS, name, "model"))


def partitions(name: Annotated[str | None, name_of("partition")] = None) -> None:
    """List what --partition accepts: every way to divide the data among the clients."""
    from fedmirage.common.data.partitions.params import PARTITIONS
    from fedmirage.show.catalogue import show_entry, show_partitions

    show_partitions(out) if name is None else show_entry(out, find(PARTITIONS, name, "partition"))


def schedules(name: Annotated[str | None, name_of("schedule")] = None) -> None:
    """List what --schedule accepts: every way to change the learning rate over the rounds."""
    from fedmirage.common.learning.schedules import SCHEDULES
    from fedmirage.show.catalogue import show_entry, show_schedules

    show_schedules(out) if name is None else show_entry(out, find(SCHEDULES, name, "schedule"))


def presets(name: str | None = None) -> None:
    """List what --preset accepts: published settings, and what each sets.

    Arguments:
        name: Show the file of this preset.
    """
    from fedmirage.show.catalogue import show_presets

    if name is None:
        show_presets(out, {preset: read_preset(preset) for preset in PRESETS})
    else:
        text = find(PRESETS, name, "preset").read_text()
        out.print(text, end="", highlight=False, markup=False, soft_wrap=True)


def datasets(
    name: str | None = None, data_dir: str | None = None, picture: Path | None = None
) -> None:
    """List what --dataset accepts: every data set, and whether its files are here.

    With a name: its parameters.

    Arguments:
        name: Explain this data set and its parameters; with --picture, a dataset line.
    Options:
        data_dir: Where to look for files.
        picture: Draw a sample of every class (and domain) of the set into this PNG.
    """
    from fedmirage.common.data.catalogue.params import DATASETS
    from fedmirage.common.data.loading import load
    from fedmirage.show.catalogue import show_datasets, show_entry

    if picture is None and name is None:
        return show_datasets(out, data_dir)
    if picture is None:
        return show_entry(out, find(DATASETS, str(name), "dataset"))
    from fedmirage.show.samples import draw_samples  # here, because it loads torch

    if name is None:
        raise FedmirageError(
            '--picture shows one set; write which: fedmirage datasets "digits" --picture FILE'
        )
    out.print(f"picture: {draw_samples(load(name, data_dir), picture)}", highlight=False)


def privacy() -> None:
    """List what --secagg and --dp accept: every key, with its default and its meaning."""
    from fedmirage.common.dp.settings import DP
    from fedmirage.common.secagg.settings import SECAGG
    from fedmirage.show.catalogue import show_entry

    settings: dict[str, Mapping[str, type[Params]]] = {"--secagg": SECAGG, "--dp": DP}
    for setting, known in settings.items():
        for params in (params for params in known.values() if params.model_fields):
            out.print(setting, style="bold", end=" ")
            show_entry(out, params)
