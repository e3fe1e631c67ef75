"""The app bundle of Flower: the folder from which `flwr run` makes it, and which code is in it."""

import hashlib
import io
import shutil
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from fedmirage.common.settings.project import INSTALLED, PROJECT_FILE, ROOT, project

LONGEST = 40  # characters of a version


def app_folder(spare: Path) -> Path:
    """Return the checkout, or `spare` where fedmirage was installed without one.

    `spare` is then filled with pyproject.toml and the modules that belong into the bundle.
    """
    return assemble(spare) if INSTALLED else ROOT


def assemble(folder: Path) -> Path:
    """Copy pyproject.toml and the modules of the bundle into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PROJECT_FILE, folder / "pyproject.toml")
    for name, module in _modules().items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(module, copy)
    return folder


def own_code() -> dict[str, str]:
    """Return the SHA-256 of every module that is installed here and belongs into the bundle."""
    return {
        name: hashlib.sha256(module.read_bytes()).hexdigest() for name, module in _modules().items()
    }


def bundled_code(bundle: bytes) -> dict[str, str]:
    """Return the SHA-256 of every file in a bundle, except for what is no code.

    That is Flower's own list, and pyproject.toml, of which a run takes its settings only.
    """
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name != "pyproject.toml" and not name.startswith(".info/")
        }


def bundled_version(bundle: bytes) -> str:
    """Return the version of fedmirage that a bundle says it is; empty if it says none."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        if "pyproject.toml" not in archive.namelist():
            return ""
        told = tomllib.loads(archive.read("pyproject.toml").decode())
    return str(told.get("project", {}).get("version", ""))[:LONGEST]


def own_version() -> str:
    """Return the version of the fedmirage that is installed here."""
    return str(project()["project"]["version"])


def digest(code: Mapping[str, str]) -> str:
    """Return one short text that is equal if, and only if, all code is."""
    lines = "".join(f"{name} {sum_}\n" for name, sum_ in sorted(code.items()))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def _modules() -> dict[str, Path]:
    """Find the modules of the bundle by their names in it."""
    patterns = project()["tool"]["flwr"]["app"]["fab-include"]
    found = (module for pattern in patterns for module in ROOT.glob(pattern))
    modules = {module.relative_to(ROOT).as_posix(): module for module in found}
    return {**modules, "fedmirage/__init__.py": Path(__file__).parents[1] / "__init__.py"}
