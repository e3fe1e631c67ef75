"""The folder from which `flwr run` makes Flower's app bundle."""

import shutil
from pathlib import Path

from common.settings.project import PACKAGED_FILE, PROJECT_FILE, ROOT, project


def app_folder(spare: Path) -> Path:
    """Return the checkout, or `spare` where fedmirage was installed without one.

    `spare` is then filled with pyproject.toml and the modules that belong into the bundle.
    """
    return assemble(spare) if PROJECT_FILE == PACKAGED_FILE else ROOT


def assemble(folder: Path) -> Path:
    """Copy pyproject.toml and the modules of the bundle into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PROJECT_FILE, folder / "pyproject.toml")
    for pattern in project()["tool"]["flwr"]["app"]["fab-include"]:
        for module in ROOT.glob(pattern):
            copy = folder / module.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(module, copy)
    return folder
