"""The functions that Python programs call: run, compare, and opening what earlier ones left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fedmirage.api.comparisons import Comparison
from fedmirage.api.networks import name_network, settle_network
from fedmirage.api.own_data import take_in
from fedmirage.api.runs import RunResult
from fedmirage.common.errors import collect
from fedmirage.common.own_code import refuse_while_importing
from fedmirage.follow.wanted import Wanted
from fedmirage.settings.layers import (
    add_network,
    in_new_folder,
    read_layers,
    report_together,
    settle,
)

if TYPE_CHECKING:
    from fedmirage.trained.model import TrainedModel


def run(
    *,
    preset: str | None = None,
    runtime: str = "auto",
    actors: int = 0,
    ray_address: str | None = None,
    log: Sequence[str] = (),
    watch: bool = False,
    watch_port: int = 0,
    quiet: bool = False,
    **settings: Any,
) -> RunResult:
    """Run settings over the defaults to the end; a run that fails raises its reason.

    Every flag of `fedmirage run` is a setting, with underscores for hyphens. `dataset` also takes
    data of your own (see `OwnData`), and `partition` a function of labels, number of clients and
    generator, or the positions of every client's samples as a list or dict. `model` may also be a
    class, a function that returns a network, or a network, whose weights the run begins with.
    Results go to the folder `out`, or else to a new one in runs/. With `resume`, the settings are
    laid over those of the run that goes on. `ray_address` ("auto" or
    "HOST:PORT") uses a Ray cluster. `quiet` shows no progress.
    """
    from fedmirage.launch import launch

    refuse_while_importing()
    console, wanted = Console(quiet=quiet), Wanted(log, watch, watch_port)
    with report_together(wanted.find_problems()):
        layers = read_layers(preset, [])
        settings, unfit = take_objects(settings, layers, console)
        with report_together(unfit):
            config = settle(layers, settings)
    with in_new_folder(config) as config:
        folder, observers = Path(config.out), wanted.make(console)
        means = (runtime, folder, console, actors)
        launch(config, *means, observers=observers, ray_address=ray_address)
    return RunResult(folder, config.model)


def compare(
    methods: str | Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    *,
    controls: bool = True,
    tune: int = 0,
    tune_schedules: Sequence[str] = (),
    share_warm_up: bool = True,
    title: str = "",
    baseline: str = "fedavg",
    score: str = "global",
    preset: str | None = None,
    runtime: str = "auto",
    actors: int = 0,
    ray_address: str | None = None,
    log: Sequence[str] = (),
    watch: bool = False,
    watch_port: int = 0,
    quiet: bool = False,
    **settings: Any,
) -> Comparison:
    """Run methods against each other and their placebos, as `fedmirage compare` does.

    FedAvg is always among them; without methods, so are the five with virtual data. The same call
    continues a comparison that was interrupted. A run that fails is shown as failed in the result,
    and the others go on. `model` may be what it may be for `run`.
    """
    from fedmirage.comparison.command import plan_comparison, run_comparison

    refuse_while_importing()
    console, wanted = Console(quiet=quiet), Wanted(log, watch, watch_port)
    lines = [methods] if isinstance(methods, str) else list(methods)
    several = [seeds] if isinstance(seeds, int) else seeds
    chosen = None if several is None else ",".join(map(str, several))
    with report_together(wanted.find_problems()):
        layers = read_layers(preset, [])
        settings, unfit = take_objects(settings, layers, console, several)
        choices = (controls, tune, tune_schedules, share_warm_up, title, baseline, score)
        with report_together(unfit):
            plan = plan_comparison(layers, settings, lines, chosen, *choices)
    observers = wanted.make(console)
    places = (runtime, actors, False, observers, ray_address)
    return Comparison(run_comparison(plan, console, *places).folder)


def take_objects(
    settings: dict[str, Any],
    layers: Sequence[dict[str, Any]],
    console: Console,
    seeds: Sequence[int] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Let lines take the place of a network, data and a split; return also what is wrong."""
    problems: list[str] = []
    with collect(problems):
        settings = settle_network(settings)
    if problems:  # the usual network stands in, so the caller finds what else is wrong
        settings = {key: value for key, value in settings.items() if key != "model"}
    settings, unfit = take_in(settings, layers, console, seeds)
    return settings, add_network([*problems, *unfit], [*layers, settings])


def read_run(folder: str | Path) -> RunResult:
    """Open the folder of a run, whether it has ended or not."""
    return RunResult(folder)


def read_comparison(folder: str | Path, score: str | None = None) -> Comparison:
    """Open the folder of a comparison that has ended, compared by its own score or another one."""
    return Comparison(folder, score)


def load_model(path: str | Path, model: Any = "", dataset: str = "") -> TrainedModel:
    """Load a run's model file: its `network`, in evaluation mode on the CPU, and `facts` about it.

    The facts are classes, normalisation, image shape, network, methods, round, and how the run read
    its inputs: `facts.read(paths)` repeats that. `dataset` replaces the latter by what a dataset
    line says, which files of earlier versions need. A file has nothing imported, so name your own
    network again as `model`: its line, class or function.
    """
    # here, because it loads torch, which settings do not need
    from fedmirage.trained.model import load_trained

    line = model if isinstance(model, str) else name_network(model)
    return load_trained(path, line, dataset)
