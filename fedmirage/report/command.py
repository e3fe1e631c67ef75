"""`fedmirage report`: writes the page of some folders, and the numbers to take away."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedmirage.common.errors import refuse
from fedmirage.comparison.export import write_files
from fedmirage.report.data import arrange
from fedmirage.report.export import WRITERS
from fedmirage.report.groups import Found, find_groups, list_places
from fedmirage.report.page import render

PAGE = "report.html"


def write_report(
    folders: Sequence[Path], out: Path | None, files: Mapping[str, Path | None], tsne: bool
) -> tuple[dict[str, Path], Found]:
    """Write the page and the other files; return their paths by kind, and what was found.

    Folders that do not exist or hold no results are refused, all of them at once.
    """
    problems = []
    for folder in folders:
        if not folder.is_dir():
            problems.append(f"there is no folder {folder}; give folders of runs or of a comparison")
        elif not list_places(folder):
            problems.append(
                f"there are no results in {folder}; give folders of runs or of a comparison (--out)"
            )
    refuse(problems)
    found = find_groups(folders)
    refuse(found.damaged if not found.groups else [])
    wanted = write_files(WRITERS, found.groups, files)
    page = out or folders[0] / PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(arrange(found, tsne)), encoding="utf-8")
    return {"page": page, **wanted}, found
