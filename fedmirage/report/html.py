"""Small pieces of HTML; whatever comes from a record is escaped here."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from fedmirage.comparison.table import find_same, leave_out

VOID = {"img"}  # elements without an end


class Html(str):
    """Text that is HTML already, and is not escaped again."""


@dataclass(frozen=True)
class PageSection:
    """One section of the page: its text and tables, and the plots that it has places for."""

    key: str
    title: str
    html: Html
    plots: dict[str, dict[str, Any]] = field(default_factory=dict)


def text(value: object) -> Html:
    """Write a value as HTML."""
    return value if isinstance(value, Html) else Html(escape(str(value)))


def join(parts: Iterable[str]) -> Html:
    """Put pieces one after the other."""
    return Html("".join(text(part) for part in parts))


def element(name: str, content: object, **attributes: object) -> Html:
    """Write an element; an attribute that is None is left out, `class_` is written class."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in VOID else f"</{name}>"
    return Html(f"<{name}{said}>{text(content)}{end}")


def bullets(items: Sequence[object]) -> Html:
    """Write a list."""
    return element("ul", join(element("li", item) for item in items)) if items else Html()


def table(
    caption: str,
    head: Sequence[object],
    rows: Iterable[Sequence[object]],
    classes: Sequence[str | None] = (),
) -> Html:
    """Write a table whose first column names the rows; it scrolls where it is too wide.

    `classes` are those of the rows, for rows that look different.
    """
    first = element("tr", join(element("th", cell, scope="col") for cell in head))
    body = []
    for number, (name, *cells) in enumerate(rows):
        line = [element("th", name, scope="row"), *(element("td", cell) for cell in cells)]
        body.append(element("tr", join(line), class_=classes[number] if classes else None))
    whole = join(
        (element("caption", caption), element("thead", first), element("tbody", join(body)))
    )
    # A region that scrolls must be reachable by keyboard.
    region = {"class_": "scroll", "tabindex": 0, "role": "region", "aria_label": caption}
    return element("div", element("table", whole), **region)


def varied_table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    classes: Sequence[str | None] = (),
) -> Html:
    """Write a table without columns that say the same in every row; its caption says these."""
    plain = [[re.sub("<[^>]*>", "", text(cell)) for cell in row[1:]] for row in rows]
    names, cells, same = leave_out(find_same(head[1:], plain), head[1:], [row[1:] for row in rows])
    whole = [[row[0], *kept] for row, kept in zip(rows, cells, strict=True)]
    return table(f"{caption}{same}", (head[0], *names), whole, classes)


def details(summary: object, content: object, opened: bool = False) -> Html:
    """Write something that can be folded away."""
    start = "<details open>" if opened else "<details>"
    return Html(f"{start}{element('summary', summary)}{text(content)}</details>")


def plot(name: str, label: str, numbers: object) -> Html:
    """Write the place of a plot, with the same numbers as a table for who does not see it."""
    place = element("div", "", class_="plot", data_plot=name, data_label=label)
    return element("figure", join((place, details("Numbers of this plot", numbers))))


def plot_section(
    key: str, title: str, said: str, numbers: object, spec: dict[str, Any]
) -> PageSection:
    """Make a section of a note and a plot, which `spec` describes, with its numbers as a table."""
    html = join((element("p", said, class_="note"), plot(key, spec["label"], numbers)))
    return PageSection(key, title, html, {key: spec})
