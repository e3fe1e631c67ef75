"""pyproject.toml, the only file that holds the run's defaults and the version.

It lies beside the packages in a checkout, in an editable installation and in Flower's app bundle.
A wheel contains nothing but packages, so building one copies the file into `common` (see setup.py).
Only wheels have that copy; if it exists, it belongs to the code around it.
"""

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
"""The folder that holds the packages: the checkout, the unpacked app bundle, or site-packages."""
PACKAGED_FILE = ROOT / "common" / "pyproject.toml"
PROJECT_FILE = PACKAGED_FILE if PACKAGED_FILE.exists() else ROOT / "pyproject.toml"


@lru_cache(maxsize=1)
def project() -> dict[str, Any]:
    """The content of pyproject.toml, read once per process; nobody may change it."""
    try:
        return tomllib.loads(PROJECT_FILE.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            [f"{PROJECT_FILE}, which holds the run's defaults, cannot be read: {error}"]
        ) from None
