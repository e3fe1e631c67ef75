"""One name, one thing: a reader who meets the name of a class knows which class it is."""

import ast
import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("common", "client", "server", "fedmirage", "experiments")
# Names that are still to be told apart; the list only gets shorter.
DOUBLE: set[str] = set()


def find_classes() -> dict[str, list[str]]:
    """The modules that define a class of each name, inside other classes and functions too."""
    found: dict[str, list[str]] = {}
    for room in ROOMS:
        for folder, _, files in os.walk(ROOT / room):  # not through the links of fedmirage
            for path in sorted(Path(folder, name) for name in files if name.endswith(".py")):
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.ClassDef):
                        found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    return found


def test_no_class_name_has_two_meanings() -> None:
    """Neither the list nor the classes may hold a name that the other does not."""
    double = {name: places for name, places in find_classes().items() if len(places) > 1}
    told = "\n".join(f"{name}: {', '.join(places)}" for name, places in sorted(double.items()))
    assert double.keys() - DOUBLE == set(), f"rename all but one of each:\n{told}"
    assert DOUBLE - double.keys() == set(), "no longer double; drop it from DOUBLE"
