"""What a check of a node finds, and the table of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

OK, WARNING, FAULT = "ok", "warning", "fault"
STYLES = {OK: "green", WARNING: "yellow", FAULT: "red"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; a warning or a fault names its fix in the same sentence."""

    state: str
    subject: str
    text: str


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print the table, and a last line that says whether the node would start."""
    table = Table(title="fedmirage supernode --check", title_justify="left", show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for found in findings:
        # a text, since a path may hold brackets, which mean colours in a plain string
        words = (Text(found.state, STYLES[found.state]), Text(found.subject), Text(found.text))
        table.add_row(*words)
    console.print(table)
    faults, warnings = (len(pick(findings, state)) for state in (FAULT, WARNING))
    rest = f"{warnings} warning{'s' * (warnings != 1)}"
    verdict = f"this node would not start: {faults} fault{'s' * (faults != 1)}, {rest}"
    ready = f"this node is ready ({rest})" if warnings else "this node is ready"
    console.print(verdict if faults else ready, highlight=False)


def pick(findings: Sequence[Finding], state: str) -> list[Finding]:
    """Return those in one state."""
    return [found for found in findings if found.state == state]
