"""The one step of a build that pyproject.toml cannot describe.

The defaults of a run are written in pyproject.toml and nowhere else. A wheel has no place for it
beside the packages, so a copy goes into the package, where common/settings/project.py finds it.
Editable installations and Flower's app bundle read the file itself.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithDefaults(build_py):
    """Builds the packages, and puts pyproject.toml into one of them."""

    def run(self) -> None:
        """Copy the file after everything else."""
        super().run()
        if not self.editable_mode:
            shutil.copyfile("pyproject.toml", Path(self.build_lib, "fedmirage", "pyproject.toml"))


setup(cmdclass={"build_py": BuildWithDefaults})
