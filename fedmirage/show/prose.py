"""Shows the text of a declaration at any width; in its file it is laid out for 100 columns."""

import inspect
import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

INDENT = 4  # of an entry of "One round"; what is indented further belongs to the entry before
ITEM = re.compile(r"[A-Z][\w ]*: ")  # "Sections: ...", "Differs from the paper: ..."


def show_prose(console: Console, text: str) -> None:
    """Show paragraphs, and entries such as `client   what it does` in two columns."""
    for piece in inspect.cleandoc(text).split("\n\n"):
        entries = []
        for line in join_lines(piece):
            if line.startswith(" "):
                entries.append(re.split(r"\s{2,}", line.strip(), maxsplit=1))
            else:
                console.print(line, highlight=False, markup=False)
        if entries:
            grid = Table.grid(padding=(0, 0, 0, INDENT - 1))
            for label, *told in entries:
                grid.add_row("", Text(label, no_wrap=True), Text(" ".join(told)))
            console.print(grid)
        console.print()


def join_lines(piece: str) -> list[str]:
    """Undo the line breaks of a piece of text, except where an entry or an item begins."""
    joined: list[str] = []
    for line in piece.splitlines():
        indent = len(line) - len(line.lstrip())
        ended = not joined or joined[-1].endswith(".")
        begins = indent == INDENT or (indent == 0 and ended and ITEM.match(line))
        if begins or not joined:
            joined.append(line)
        else:
            joined[-1] += f" {line.strip()}"
    return joined
