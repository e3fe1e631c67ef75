"""fedmirage from Python, with the settings and the results of the command line.

    import fedmirage

    run = fedmirage.run(methods="scaffold", clients=10, rounds=20)
    run.summary["final_accuracy"], run.rounds, run.plot()

    found = fedmirage.compare(["fedcog", "vhl"], seeds=[0, 1, 2], clients=10, rounds=20)
    found.table, found.sentences, found.plot()

    model = run.model()
    model.predict("photos/"), model.network(model.facts.read("photos/"))

Frames are pandas's, pictures are matplotlib's. `read_run` and `read_comparison` open the folders of
earlier ones. Whatever is wrong with settings is raised as `ConfigurationError`, all of it at once.
`METHODS` holds the parameters of every method by name, and `load("digits")` reads a data set.
Everything is loaded when it is first used.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# common, client and server lie inside this package: in a wheel as folders, in a checkout as links.
# Flower's bundle knows no links, so there they lie beside it.
if not Path(__file__).with_name("common").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

if TYPE_CHECKING:
    from fedmirage.api.calls import compare, load_model, read_comparison, read_run, run
    from fedmirage.api.comparisons import Comparison
    from fedmirage.api.own_data import OwnData
    from fedmirage.api.runs import RunResult
    from fedmirage.common.data.loading import load
    from fedmirage.common.errors import ConfigurationError, FedmirageError
    from fedmirage.common.methods import METHODS
    from fedmirage.common.settings.config import RunConfig, configure
    from fedmirage.trained.model import TrainedModel

    __version__: str

_HOMES = {
    "api.calls": {"compare", "load_model", "read_comparison", "read_run", "run"},
    "api.comparisons": {"Comparison"},
    "api.own_data": {"OwnData"},
    "api.runs": {"RunResult"},
    "common.data.loading": {"load"},
    "common.errors": {"ConfigurationError", "FedmirageError"},
    "common.methods": {"METHODS"},
    "common.settings.config": {"RunConfig", "configure"},
    "trained.model": {"TrainedModel"},
}
__all__ = [
    "METHODS",
    "Comparison",
    "ConfigurationError",
    "FedmirageError",
    "OwnData",
    "RunConfig",
    "RunResult",
    "TrainedModel",
    "__version__",
    "compare",
    "configure",
    "load",
    "load_model",
    "read_comparison",
    "read_run",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("fedmirage.common.settings.project").project()["project"]["version"]
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fedmirage.{home}"), name)
    raise AttributeError(f"module 'fedmirage' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
