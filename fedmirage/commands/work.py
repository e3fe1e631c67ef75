"""Commands that run something: a run, a comparison, tables of the papers."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from fedmirage.commands.console import out
from fedmirage.commands.flags import PLACES
from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import RunConfig, key_of
from fedmirage.common.settings.project import ROOT
from fedmirage.follow.wanted import Wanted
from fedmirage.settings.layers import in_new_folder, read_layers, report_together, settle
from fedmirage.show.words import say


def run(**given: Any) -> None:
    """Train with the given methods, and show the progress.

    Settings come from the defaults (pyproject.toml), then --preset, then --config files, then
    flags; the later ones win. The folder --out then holds results.jsonl (one line per round),
    model.safetensors and a checkpoint for --resume and --warm-start.
    """
    carry_on(given, pick_settings(given))


def carry_on(
    given: Mapping[str, Any],
    settings: dict[str, Any],
    found: Sequence[str] = (),
    sites: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Run with these settings to the end and show it, unless problems were found before.

    With sites, clients have their data (fedmirage/runtimes/sites.py).
    """
    from fedmirage.launch import launch
    from fedmirage.show.progress import show_summary

    wanted, quiet = want(given), given["quiet"]
    both = ["--quiet and --verbose exclude each other; leave one out"]
    both = both if quiet and given["verbose"] else []
    with report_together([*found, *wanted.find_problems(), *both]):
        config = settle(read_layers(given["preset"], given["config"]), settings)
    places = {name: given[name] for name in PLACES if name in given}
    places |= {"ray_address": ""} if sites else {}  # their data are on this host alone
    console = Console(quiet=True) if quiet else out
    with in_new_folder(config) as config:
        folder, followed = Path(config.out), wanted.make(console)
        summary = launch(
            config, folder=folder, console=console, observers=followed, sites=sites, **places
        )
    show_summary(console, summary, folder)
    if wanted.watch:
        show_page(folder)
    if summary.get("status") != "finished":
        raise typer.Exit(1)


def pick_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that were given as flags."""
    return {name: given[name] for name in RunConfig.model_fields if given[name] is not None}


def want(given: Mapping[str, Any]) -> Wanted:
    """Return what the flags ask for beside the runs."""
    return Wanted(given["log"], given["watch"], given["watch_port"])


def compare(
    runs: list[Path] | None = None,
    methods: list[str] | None = None,
    seeds: str | None = None,
    controls: bool = True,
    tune: int = 0,
    tune_schedules: list[str] | None = None,
    share_warm_up: bool = True,
    title: str = "",
    baseline: str = "fedavg",
    score: str | None = None,
    report: bool = True,
    picture: Path | None = None,
    csv: Path | None = None,
    json: Path | None = None,
    latex: Path | None = None,
    **given: Any,
) -> None:
    """Compare methods: run each beside its placebo, and tell which differences the numbers support.

    All of them get the same clients, initial weights and sampling, with every seed. Without
    --methods, FedAvg runs against the five methods with virtual data. The same command continues a
    comparison that was interrupted.

    With folders, nothing runs: the folder of a comparison is shown again, and folders of runs are
    compared; --score chooses another score than before, and --picture draws it by round.

    Arguments:
        runs: The folder of a comparison, or the folders of runs.
    Options:
        methods: A methods line to compare; may be given several times. FedAvg is always there.
            [default: fedavg and the five methods with virtual data]
        seeds: The seeds, e.g. 0,1,2 or 0..9; differences are paired over them. [default: 0]
        controls: Run the placebo beside each method that has one: the method without what is
            supposed to help.
        tune: How many learning rates every line may try (1, 1/3, 3, 1/9, ... times --lr), chosen by
            validation data on the first seed; 0 keeps --lr.
        tune_schedules: A schedule that every line may try besides --schedule, with each of its
            learning rates, e.g. "step(at=51, factor=0.2)"; may be given several times. Chosen like
            these.
        share_warm_up: Take over the first rounds of a method that begins as FedAvg from FedAvg's
            run, which then keeps all its models.
        title: What the tables and the page call the comparison.
        baseline: The methods line that all others are compared with; it runs too.
        score global|local|balanced-accuracy|macro-f1|auc: What is compared: the accuracy of the
            global model; that of local models, each on its own shard of the test set; or another
            score of the global model, which skewed data need. [default: global]
        report: Write report.html, a page about the comparison, into its folder.
        picture: Draw the score by round into this PNG.
        csv: Export the numbers of every run to this CSV file.
        json: Export settings, numbers and intervals to this JSON file.
        latex: Export the table to this LaTeX file.
    """
    from fedmirage.comparison.rows import Question

    flags = pick_settings({"methods": None, **given})
    files = {"csv": csv, "json": json, "latex": latex}
    if runs:
        from fedmirage.comparison.command import show_folders

        names = ("preset", "config", "log", "watch", "watch_port")
        typed = {"methods": methods, **dict.fromkeys(flags, True), "seeds": seeds}
        typed |= {name: given[name] for name in names} | {"title": title}
        typed |= {"baseline": baseline != Question.baseline}
        extra = [f"--{key_of(name)}" for name, value in typed.items() if value]
        show_folders(runs, picture, files, extra, out, score)
        return
    from fedmirage.comparison.command import plan_comparison, present, run_comparison, suggest

    wanted, choices = want(given), (controls, tune, tune_schedules or [], share_warm_up)
    asked = (*choices, title, baseline, score or Question.score)
    with report_together(wanted.find_problems()):
        layers = read_layers(given["preset"], given["config"])
        plan = plan_comparison(layers, flags, methods or [], seeds, *asked)
    places = {name: given[name] for name in PLACES}
    outcome = run_comparison(plan, out, **places, observers=wanted.make(out))
    present(outcome, out, files)
    if report or wanted.watch:
        show_page(outcome.folder)
    if picture:
        from fedmirage.comparison.curves import draw_runs

        say(out, f"picture: {draw_runs(outcome.run_folders, picture, outcome.question)}")
    suggest(outcome, out)
    if any(standing.failed for standing in outcome.standings):
        raise typer.Exit(1)


def reproduce(**given: Any) -> None:
    """Run tables of the papers, and show our numbers, the paper's and the difference.

    Needs a checkout. Without a table, it lists all. With one, it first estimates the cost on this
    machine; the same command continues what was interrupted and does not repeat finished runs.
    """
    if not (ROOT / "experiments" / "reproduce").is_dir():
        raise FedmirageError(
            "the papers' tables are not part of the installed package; clone the repository, run"
            " `make setup` in it, and use its .venv/bin/fedmirage reproduce"
        )
    sys.path.insert(0, str(ROOT))  # experiments belongs to the checkout and is not installed
    dispatch = import_module("experiments.reproduce.dispatch").dispatch
    if not dispatch(given, out):
        raise typer.Exit(1)


def new_method(name: str, folder: Path | None = None) -> None:
    """Write a package with a new method: declaration, halves, tests and pyproject.toml.

    It passes the test kit as it is. docs/own-method.md says how to go on.

    Arguments:
        name: Its name, e.g. my-method.
    Options:
        folder: Where to write it; the default is fedmirage-NAME.
    """
    from fedmirage.skeleton import write_skeleton

    place = folder or Path(f"fedmirage-{name}")
    for path in write_skeleton(name, place):
        say(out, f"wrote {path}")
    say(out, f"next: pip install -e {place}, then pytest {place}, fedmirage methods {name}")


def show_page(folder: Path) -> None:
    """Write the page about a run or a comparison into its folder, and print its path."""
    from fedmirage.report.command import write_report

    written, _ = write_report([folder], None, {}, tsne=False)
    say(out, f"page: {written['page']}")
