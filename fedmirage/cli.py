"""The command line, `fedmirage`.

Every setting of the run configuration is a flag, and its help is the sentence under the field.
"""

import os
import sys
from typing import Annotated

import typer

from fedmirage.commands import (
    audits,
    deployment,
    federation,
    flags,
    listings,
    rehearsal,
    trained,
    views,
    work,
)
from fedmirage.commands.console import err, out
from fedmirage.commands.parser import Command, Commands, RunCommand
from fedmirage.commands.told import explained, list_flags
from fedmirage.common.errors import FedmirageError, reason
from fedmirage.common.settings.project import project

RUN_EXAMPLES = """Examples:

fedmirage run  ·  fedmirage run --partition "dirichlet(alpha=0.1)" --clients 10 --rounds 20  ·
fedmirage run --runtime grpc  ·  fedmirage run --resume runs/one  ·
fedmirage run --warm-start runs/one@50 --rounds 70
"""
COMPARE_EXAMPLES = """Examples:

fedmirage compare --methods scaffold --methods "vhl, fedprox(mu=0.01)" --seeds 0,1,2  ·
fedmirage compare --methods fedcog --rounds 70 --tune 2  ·
fedmirage compare runs/one runs/two --picture accuracy.png
"""

app = typer.Typer(
    name="fedmirage",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Federated learning on skewed data with virtual data: run methods, compare them, look at"
        " the data."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def show_version(asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        out.print(f"fedmirage {project()['project']['version']}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options that belong to no command."""


quiet = flags.flag(bool, False, "Print nothing but errors.", "--quiet")
places = {**list_flags(flags.place), **flags.follow_flags()}
run_flags = {"quiet": quiet, **places, **flags.setting_flags()}
compared = flags.setting_flags(
    "methods",
    seed="One seed; --seeds takes several.",
    resume="",  # it is refused: the same command continues a comparison
    out="Folder of the comparison; empty means runs/compare-..., named after the settings, so"
    " the same command finds it again.",
)

# In the order in which --help lists them.
app.command(epilog=RUN_EXAMPLES, cls=RunCommand)(explained(work.run, run_flags))
app.command(epilog=COMPARE_EXAMPLES, cls=RunCommand)(
    explained(work.compare, {**places, **compared})
)
for use in (
    views.report,
    trained.predict,
    trained.evaluate,
    trained.card,
    trained.export,
    trained.personal,
):
    app.command(cls=Command)(explained(use))
layers = {name: places[name] for name in ("preset", "config")}
audited = {
    **audits.audit_flags(),
    **layers,
    "verbose": places["verbose"],
    **flags.setting_flags(*audits.LEFT_OUT),
}
app.command(cls=RunCommand)(explained(audits.audit, audited))
app.command(cls=Command)(explained(work.reproduce, flags.reproduce_flags()))
for command in (
    listings.methods,
    listings.models,
    listings.partitions,
    listings.schedules,
    listings.presets,
    listings.datasets,
    listings.privacy,
    views.partition,
    views.schema,
    views.doctor,
    work.new_method,
    deployment.key,
    deployment.superlink,
    deployment.admit,
    federation.supernode,
    deployment.status,
):
    app.command(cls=Command)(explained(command))
at_home = {name: flag for name, flag in run_flags.items() if name != "ray_address"}
app.command(cls=RunCommand)(explained(rehearsal.rehearse, at_home))
app.command(cls=RunCommand)(explained(federation.submit, {**layers, **flags.setting_flags()}))


def carry_out() -> None:
    """Do the command that was typed; errors are sentences, not stack traces. Called by entry.py.

    Modules of somebody's own are found in the current folder too, as the processes of a run find
    them: after all others, so nothing there takes the place of a library.
    """
    try:
        sys.path.append(os.getcwd())
        app(standalone_mode=True)
    except FedmirageError as error:
        for problem in getattr(error, "problems", [str(error)]):
            err.print(f"error: {problem}", style="red", highlight=False, markup=False)
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that may not be written
        err.print(f"error: {reason(error)}", style="red", highlight=False, markup=False)
        sys.exit(1)
