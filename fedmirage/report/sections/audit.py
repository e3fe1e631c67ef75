"""The section about what the messages of the runs give away, where somebody has audited them."""

import base64
from pathlib import Path

from PIL import Image

from fedmirage.audit.attack import (
    FILE,
    PICTURES,
    AuditFinding,
    AuditTable,
    RecordedFinding,
    read_finding,
    show_cell,
)
from fedmirage.common.errors import DataError
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, bullets, element, join, table

TITLE = "What the messages give away"


def is_audited(group: Group) -> bool:
    """Whether runs of a group were done for attacks, and not to compare accuracies.

    An attack that failed has left nothing in the folder of its run, so one run is enough.
    """
    return any((run.folder / FILE).exists() for run in group.all_runs)


def name_attacks(group: Group) -> str:
    """Name an audited group after its attacks and the methods that were attacked.

    What they found may be unreadable; the section says so.
    """
    found = [one for run in group.all_runs if (one := _read(run.folder)[0])]
    if not found:
        return TITLE
    attacks = dict.fromkeys(one.attack.partition("(")[0] for one in found)
    methods = dict.fromkeys(one.methods for one in found)
    name = f"{', '.join(attacks)} on {'; '.join(methods)}"
    return name[:1].upper() + name[1:]


def audit(group: Group) -> PageSection | None:
    """Show what attacks found; runs that nobody attacked have no such section."""
    parts = []
    for runs in group.runs.values():
        for seed, run in runs.items():
            said, problem = _read(run.folder)
            if problem:
                parts.append(element("p", problem))
            if said is not None:
                label = f"{said.attack} on {said.methods}, seed {seed}"
                parts.append(join((element("h4", label), show_finding(said.finding, run.folder))))
    return PageSection("audit", TITLE, join(parts)) if parts else None


def _read(folder: Path) -> tuple[RecordedFinding | None, str]:
    """Read what was found, or say why it cannot be read."""
    try:
        return read_finding(folder), ""
    except DataError as error:
        return None, str(error)


def show_finding(found: AuditFinding, folder: Path) -> Html:
    """Write the sentences, tables and pictures of one attack."""
    figures = [
        show_picture(folder / PICTURES / one.file, one.caption)
        for one in found.pictures
        if (folder / PICTURES / one.file).is_file()
    ]
    gallery = element("div", join(figures), class_="gallery wide") if figures else Html()
    return join((bullets(found.says), *map(show_table, found.tables), gallery))


def show_table(one: AuditTable) -> Html:
    """Write a table, and the note below it."""
    rows = [[show_cell(cell) for cell in row] for row in one.rows]
    note = element("p", one.note, class_="note") if one.note else Html()
    return join((table(one.title, one.head, rows), note))


def show_picture(path: Path, caption: str) -> Html:
    """Put a picture into the page."""
    with Image.open(path) as sheet:
        size = {"width": sheet.width, "height": sheet.height}
    source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    image = element("img", "", src=source, **size, alt=caption)
    return element("figure", join((image, element("figcaption", caption))))
