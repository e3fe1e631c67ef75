"""Every published setting is one that the configuration accepts, and says where it comes from."""

from pathlib import Path

import pytest

from common.settings.config import configure, defaults
from experiments.cli import PRESETS, read_toml

FILES = sorted(PRESETS.glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_preset_is_accepted_and_every_key_of_it_is_known(path: Path) -> None:
    settings = read_toml(path, "preset")
    assert settings.keys() <= defaults().keys()
    config = configure(settings)
    assert settings.items() <= config.flat().items()
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("partition", ["niid1", "niid2"])
def test_rows_of_one_table_differ_in_their_methods_alone(partition: str) -> None:
    rows = [
        read_toml(PRESETS / f"{method}-fmnist-{partition}.toml", "preset")
        for method in ("fedcog", "vhl")
    ]
    assert rows[1].pop("methods") == "vhl(generator='gaussian')"
    assert rows[0] == rows[1]
