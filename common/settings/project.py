"""pyproject.toml, the only file that holds the run's defaults and the version.

It lies beside `common` in a checkout, in an editable installation and in Flower's app bundle.
Building a wheel copies it into the package (see setup.py), which is beside `common` again.
"""

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedmirage.common.errors import ConfigurationError, reason

ROOT = Path(__file__).resolve().parents[2]
"""The folder of common, client and server: the checkout, the unpacked bundle, or the package."""
PROJECT_FILE = ROOT / "pyproject.toml"
INSTALLED = (ROOT / "__init__.py").exists()  # from a wheel, without a checkout


@lru_cache(maxsize=1)
def project() -> dict[str, Any]:
    """The content of pyproject.toml, read once per process; nobody may change it."""
    try:
        return tomllib.loads(PROJECT_FILE.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            f"{PROJECT_FILE}, which holds the run's defaults, cannot be read: {reason(error)}"
        ) from None
