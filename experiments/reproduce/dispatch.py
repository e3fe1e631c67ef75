"""What `fedmirage reproduce` was asked to do: one thing at a time."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from experiments.reproduce.command import reproduce, show_tables
from experiments.reproduce.cost import Clock
from experiments.reproduce.pages import rewrite_pages
from experiments.reproduce.queue import run_queue, show_queue
from experiments.reproduce.records import record_run
from experiments.reproduce.still_open import write_open
from fedmirage.commands.flags import reproduce_flags
from fedmirage.common.errors import refuse
from fedmirage.common.settings.config import key_of
from fedmirage.show.words import say

TASKS = ("table", "queue", "record", "tables")
FOR_A_TABLE = ["row", "column", "scale", "seeds", "estimate", "csv", "json", "out"]
FOR_A_TABLE += ["data_dir", "download"]


def dispatch(given: Mapping[str, Any], console: Console) -> bool:
    """Do what was asked; return whether all went well."""
    check_flags(given)
    if given["queue"]:
        if given["status"]:
            show_queue(given["queue"], console)
            return True
        if given["estimate"]:
            say(console, f"made anew: {write_open(given['queue'], Clock())}")
            return True
        return run_queue(given["queue"], given, console)
    if given["record"]:
        source, name = given["record"]
        path = record_run(source, name, given["results"])
        say(console, f"recorded: {path}")
    elif given["tables"]:
        for path in rewrite_pages(given["results"]):
            say(console, f"made anew: {path}")
    elif given["table"]:
        answers = reproduce(given["table"], given, console)
        return not any(answer.failed for answer in answers)
    else:
        show_tables(console)
    return True


def check_flags(given: Mapping[str, Any]) -> None:
    """Refuse flags that do not go together, all at once."""
    asked = [name for name in TASKS if given[name]]
    problems = []
    if len(asked) > 1:
        names = " and ".join(name if name == "table" else f"--{name}" for name in asked)
        problems.append(f"{names} are different things; ask for one at a time")
    usual = {name: default for name, (_, default) in reproduce_flags().items()}
    set_by_hand = [name for name in FOR_A_TABLE if given[name] and given[name] != usual[name]]
    if "queue" in asked:
        set_by_hand = [name for name in set_by_hand if name != "estimate"]
    extra = [] if "table" in asked else set_by_hand
    problems += [
        f"--{key_of(name)} is for a table; write which, e.g. fedcog/table1" for name in extra
    ]
    if given["status"] and not given["queue"]:
        problems.append("--status shows a queue; write its file with --queue FILE")
    refuse(problems)
