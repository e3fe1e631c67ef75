"""The section about what the messages of the runs give away, where somebody has audited them."""

import base64
from pathlib import Path

from PIL import Image

from fedmirage.audit.attack import PICTURES, AuditFinding, AuditTable, read_finding, show_cell
from fedmirage.common.errors import DataError
from fedmirage.report.groups import Group
from fedmirage.report.html import Html, PageSection, bullets, element, join, table

TITLE = "What the messages give away"


def audit(group: Group) -> PageSection | None:
    """Show what attacks found; runs that nobody attacked have no such section."""
    parts = []
    for name, runs in group.runs.items():
        for seed, run in runs.items():
            try:
                said = read_finding(run.folder)
            except DataError as error:
                parts.append(element("p", error))
                continue
            if said is not None:
                attack, found = said
                label = f"{attack} on {group.labels[name]}, seed {seed}"
                parts.append(join((element("h4", label), show_finding(found, run.folder))))
    return PageSection("audit", TITLE, join(parts)) if parts else None


def show_finding(found: AuditFinding, folder: Path) -> Html:
    """Write the sentences, tables and pictures of one attack."""
    figures = [
        show_picture(folder / PICTURES / one.file, one.caption)
        for one in found.pictures
        if (folder / PICTURES / one.file).is_file()
    ]
    gallery = element("div", join(figures), class_="gallery") if figures else Html()
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
