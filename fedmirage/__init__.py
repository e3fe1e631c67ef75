"""fedmirage from Python, with the settings and the results of the command line.

    import fedmirage

    config = fedmirage.configure({"methods": "scaffold", "clients": 10, "rounds": 20})
    summary = fedmirage.run(config)
    print(summary["final_accuracy"])

    model, facts = fedmirage.load_model("runs/first/model.safetensors")
    answers = model(facts.normalise(images))[:, : len(facts.classes)].argmax(1)

`METHODS` holds the parameters of every method by name, and `load("digits")` reads a data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.data import load
from common.methods import METHODS
from common.settings.config import RunConfig, configure
from common.settings.project import project

__all__ = ["METHODS", "RunConfig", "__version__", "configure", "load", "load_model", "run"]

if TYPE_CHECKING:
    from common.models import Model
    from common.models.files import ModelFacts

__version__: str = project()["project"]["version"]


def run(
    config: RunConfig | Mapping[str, Any], runtime: str | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Run a configuration, or settings over the defaults, to its end and return its summary.

    Results go to the folder `out` of the configuration, or else to a new one in runs/. Settings
    with `resume` are laid over those of the run that they continue. `runtime` is as for
    `fedmirage run --runtime`, and None means its default; `quiet` shows no progress.
    """
    from rich.console import Console

    from experiments.launch import RUNTIMES, launch
    from experiments.settings import place, settle

    placed = place(config) if isinstance(config, RunConfig) else settle([], dict(config))
    return launch(placed, runtime or RUNTIMES[0], Path(placed.out), Console(quiet=quiet))


def load_model(path: str | Path) -> tuple[Model, ModelFacts]:
    """Load a run's model file: the network, in evaluation mode on the CPU, and facts about it.

    The facts are classes, normalisation, image shape, network, methods and round.
    """
    from common.models import files  # here, because it loads torch, which settings do not need

    return files.load_model(path)
