"""Packages with methods, as pip would leave them behind: modules, and a dist-info beside them."""

import tomllib
from pathlib import Path

from fedmirage.skeleton import write_skeleton

DECLARATION = '''
from typing import ClassVar
from fedmirage.client.objective import Objective
from fedmirage.common.method import Method

class {kind}(Method):
    """An example."""
    name: ClassVar[str] = "{name}"
    title: ClassVar[str] = "An example"
    authors: ClassVar[str] = "Somebody"
    link: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = ("term.{name}",)
    placebo: ClassVar[dict[str, float]] = {{"mu": 0.0}}
    mu: float = 0.5
    """The weight; 0 gives FedAvg."""
'''
HALF = """
class {kind}Client(Objective[{kind}]):
    def terms(self, step):
        mu = self.params.mu
        return {{"{name}": mu * step.logits.square().mean()}} if mu else {{}}
"""


def write_method(path: Path, name: str = "pull", kind: str = "Pull", half: bool = True) -> Path:
    """Append a method to a file, with a client half that pulls logits to zero."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write((DECLARATION + (HALF if half else "")).format(name=name, kind=kind))
    return path


def register(folder: Path, package: str, methods: dict[str, str]) -> None:
    """Write the metadata of an installed package: its version, and the methods that it provides."""
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n"
    (info / "METADATA").write_text(text)
    lines = [f"{name} = {value}\n" for name, value in methods.items()]
    (info / "entry_points.txt").write_text("".join(["[fedmirage.methods]\n", *lines]))


def install_skeleton(name: str, folder: Path) -> Path:
    """Write a new method, and register it as its own pyproject.toml says."""
    write_skeleton(name, folder)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    register(
        folder, project["name"].replace("-", "_"), project["entry-points"]["fedmirage.methods"]
    )
    return folder
