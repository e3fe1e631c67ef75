"""`fedmirage audit`: runs, listens as the server does, attacks, and tells what came of it."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from fedmirage.audit.attack import AuditFinding, AuditTable, show_cell, write_finding
from fedmirage.audit.plan import AuditJob, AuditPlan
from fedmirage.common.errors import FedmirageError
from fedmirage.show.progress import Watch
from fedmirage.show.words import make_table, muted, say


@dataclass(frozen=True)
class Audited:
    """What came of a plan."""

    found: list[tuple[AuditJob, AuditFinding]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # one sentence each

    def complain(self) -> None:
        """Raise if an attack failed."""
        if self.failed:
            count = len(self.found) + len(self.failed)
            raise FedmirageError(f"{len(self.failed)} of {count} attacks failed; reasons above")


def audit(plan: AuditPlan, console: Console, verbose: bool = False) -> Audited:
    """Do all jobs of a plan, one after the other; show and write what each of them finds.

    One that fails, because its training diverges for example, does not keep others from going on.
    """
    for note in plan.notes:
        say(console, f"left out: {note}", "yellow")
    audited = Audited()
    with nullcontext() if verbose else muted("flwr"):
        for job in plan.jobs:
            say(console, f"{job.attack.name} on {describe(job)}", "bold")
            try:
                finding = attack(job, console)
            except FedmirageError as error:
                say(console, f"failed: {error}", "red")
                audited.failed.append(str(error))
                continue
            show(finding, job.folder, console)
            audited.found.append((job, finding))
    return audited


def attack(job: AuditJob, console: Console) -> AuditFinding:
    """Do the run of a job, and attack what its server has seen."""
    from fedmirage.audit.overheard import overhear  # loads torch

    with Watch(console, job.folder, job.config.rounds):
        seen = overhear(job.attack.arrange(job.config))
    with console.status("attacking") as status:
        seen.tell = status.update
        finding = job.attack.carry_out(seen)
    write_finding(job.folder, job.attack, job.config.methods, finding)
    return finding


def describe(job: AuditJob) -> str:
    """Say what is attacked."""
    config = job.config
    hidden = [
        f"{key} {value}"
        for key, value in (("secagg", config.secagg), ("dp", config.dp))
        if value != "off"
    ]
    where = f"{config.dataset}, {config.partition}, {config.clients} clients, {config.model}"
    length = count(config.local_steps, "step") or count(config.local_epochs, "epoch")
    each = f"{count(config.rounds, 'round')} of {length} with batches of {config.batch_size}"
    return "; ".join([f"{config.methods} on {where}", each, *hidden])


def count(number: int, what: str) -> str:
    """Write how many there are; nothing if there are none."""
    return f"{number} {what}{'s' * (number > 1)}" if number else ""


def show(finding: AuditFinding, folder: Path, console: Console) -> None:
    """Print what was found."""
    for table in finding.tables:
        print_table(table, console)
    for sentence in finding.says:
        say(console, sentence)
    for picture in finding.pictures:
        say(console, f"picture: {folder / 'audit' / picture.file}")


def print_table(table: AuditTable, console: Console) -> None:
    """Print a table as it is on the page."""
    drawn = make_table(table.head, find_numbers(table), table.title)
    for row in table.rows:
        drawn.add_row(*map(show_cell, row))
    console.print(drawn)
    if table.note:
        say(console, table.note, "dim")


def find_numbers(table: AuditTable) -> Sequence[str]:
    """Return the names of the columns that hold numbers."""
    return [
        name
        for place, name in enumerate(table.head)
        if any(isinstance(row[place], int | float) for row in table.rows)
    ]
