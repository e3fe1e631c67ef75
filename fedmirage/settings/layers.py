"""Collects the settings of a run from presets, TOML files, flags, or the run that is resumed."""

import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from fedmirage.common.errors import ConfigurationError, collect, reason, refuse
from fedmirage.common.models.params import explain_missing
from fedmirage.common.own_code import is_file, is_reference, module_of
from fedmirage.common.settings.config import RunConfig, configure, defaults
from fedmirage.common.settings.language import nearest, split

T = TypeVar("T")
FOLDER = Path(__file__).parents[1] / "presets"
RUNS = Path("runs")  # where results go that nobody gives a place
PRESETS = {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def find(known: Mapping[str, T], name: str, what: str) -> T:
    """Find an entry by its name in upper or lower case, or refuse it with the nearest names."""
    key = name if is_reference(name) else name.lower()
    if key not in known:
        raise ConfigurationError([f"no {what} is called {name!r}{nearest(key, known)}"])
    return known[key]


def read_preset(name: str) -> dict[str, Any]:
    """Read a published setting by name."""
    return read_toml(find(PRESETS, name, "preset"), "preset")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a file of settings: flat keys as in [tool.flwr.app.config]."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError([f"{what}: there is no file {path}"]) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            [f"{what}: {path} cannot be read as TOML: {reason(error)}"]
        ) from None


def read_layers(preset: str | None, files: Sequence[Path] | None) -> list[dict[str, Any]]:
    """Read a preset and TOML files, in the order in which they override each other."""
    first = [read_preset(preset)] if preset else []
    return first + [read_toml(path, "config") for path in files or ()]


@contextmanager
def report_together(found: Sequence[str]) -> Iterator[None]:
    """Refuse what was found before together with what the settings themselves are refused for."""
    problems = list(found)
    with collect(problems):
        yield
    refuse(problems)


def settle(layers: list[dict[str, Any]], flags: dict[str, Any]) -> RunConfig:
    """Apply layers and flags to the defaults; a resumed run keeps its original settings."""
    try:
        if flags.get("resume"):
            return _resume(layers, flags)
        return place(configure(*layers, flags))
    except ConfigurationError as error:
        raise ConfigurationError(add_network(error.problems, [*layers, flags])) from None


def add_network(problems: Sequence[str], layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add to the problems of settings why somebody's own network cannot be imported."""
    line = next((str(layer["model"]) for layer in reversed(layers) if layer.get("model")), "")
    more = explain_missing(line) if problems and is_reference(line.partition("(")[0]) else []
    return list(dict.fromkeys([*problems, *more]))


def place(config: RunConfig) -> RunConfig:
    """Give a run paths that are valid in every process."""
    absolute = {
        key: str(Path(getattr(config, key)).expanduser().absolute())
        for key in ("warm_start", "initial_weights", "data_dir")
        if getattr(config, key)
    }
    if out := config.resume or config.out:
        absolute["out"] = str(Path(out).absolute())
    own = {"model": locate(config.model), "methods": locate(config.methods)}
    return configure(config.flat(), {**absolute, **own})


def choose_out(config: RunConfig, runs: Path = RUNS) -> RunConfig:
    """Name the folder of a run that nobody gave one after its time, data set and method."""
    names = (config.dataset_list[0].name, config.method_list[-1].name)
    usual = Path(runs, "-".join((time.strftime("%Y%m%d-%H%M%S"), *names)))
    return configure(config.flat(), {"out": config.out or str(usual.absolute())})


@contextmanager
def in_new_folder(config: RunConfig) -> Iterator[RunConfig]:
    """Make the folder of a run that nobody gave one; it is gone again if nothing was written."""
    if config.out:
        yield config
        return
    from fedmirage.server.record.folder import make_vacant

    usual = Path(choose_out(config).out)
    is_first = not usual.parent.exists()
    folder = make_vacant(usual)
    try:
        yield configure(config.flat(), {"out": str(folder)})
    finally:
        with suppress(OSError):  # one of them is not empty
            folder.rmdir()
            if is_first:
                folder.parent.rmdir()


def locate(line: str) -> str:
    """Return a line in which the paths of files of somebody's own code are absolute."""
    pieces = split(line)
    for index, piece in enumerate(pieces):
        name = piece.partition("(")[0].strip()
        if is_reference(name) and is_file(path := module_of(name)):
            pieces[index] = piece.replace(path, str(Path(path).expanduser().absolute()), 1)
    return line if pieces == split(line) else ", ".join(pieces)


def _resume(layers: list[dict[str, Any]], flags: dict[str, Any]) -> RunConfig:
    from fedmirage.server.record.folder import require_same_settings
    from fedmirage.server.record.results import FILE, read_results

    folder = Path(flags["resume"]).expanduser().absolute()
    lines = read_results(folder / FILE)
    if not lines or lines[0].get("kind") != "config":
        raise ConfigurationError(
            f"resume={flags['resume']!r}: there is no {FILE} with a configuration in it;"
            " give the folder of a run"
        )
    if layers or Path(flags.get("out") or folder).absolute() != folder:
        raise ConfigurationError(
            f"resume={flags['resume']!r} continues a run as it was and where it is; drop"
            " preset, config and out, or use warm-start to start a new run from it"
        )
    known = {key: value for key, value in lines[0].items() if key in defaults()}
    place = {"resume": str(folder), "out": str(folder)}
    config = configure({**known, "warm-start": ""}, {**flags, **place})
    require_same_settings(config, folder)
    return config
