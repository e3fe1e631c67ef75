"""A method in a package of its own, as a start: `fedmirage new-method` writes it under a new name.

The files beside this one are a whole method that passes the test kit. Only names are replaced.
"""

from pathlib import Path

from fedmirage.common.errors import ConfigurationError, refuse
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.language import NAME

HERE = Path(__file__).parent
FILES = (
    "pyproject.toml",
    *(f"fedmirage_my_method/{name}.py" for name in ("__init__", "client", "server")),
    "tests/test_my_method.py",
)


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Write the files of a new method into a folder; return their paths."""
    if not NAME.fullmatch(name) or name != name.lower():
        raise ConfigurationError(
            f"{name!r} is no name for a method; write small letters, digits and hyphens, such as"
            " my-method"
        )
    problems = [f"there is already a method called {name!r}; choose another name"]
    problems = problems if name in METHODS else []
    words = name.split("-")
    renamed = {
        "my_method": "_".join(words),
        "my-method": name,
        "MyMethod": "".join(word.capitalize() for word in words),
        "My method": " ".join([words[0].capitalize(), *words[1:]]),
    }

    def rename(text: str) -> str:
        for old, new in renamed.items():
            text = text.replace(old, new)
        return text

    written = {folder / rename(file): rename((HERE / file).read_text()) for file in FILES}
    problems += [
        f"{path} is already there; choose another --folder" for path in written if path.exists()
    ]
    refuse(problems)
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(written)
