"""Every published setting is one that the configuration accepts, and says where it comes from."""

from pathlib import Path

import pytest

from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure, defaults
from fedmirage.settings.layers import PRESETS, read_preset


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_named_after_a_method_runs_it(name: str) -> None:
    """A preset that sets no methods would quietly run FedAvg."""
    (method,) = (known for known in METHODS if name.startswith(f"{known}-"))
    settings = read_preset(name)
    assert "methods" in settings
    assert [params.name for params in configure(settings).method_list] == [method]


@pytest.mark.parametrize(("name", "path"), PRESETS.items(), ids=PRESETS)
def test_a_preset_is_accepted_and_every_key_of_it_is_known(name: str, path: Path) -> None:
    settings = read_preset(name)
    assert settings.keys() <= defaults().keys()
    config = configure(settings)
    assert settings.items() <= config.flat().items()
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("partition", ["niid1", "niid2"])
def test_rows_of_one_table_differ_in_their_methods_alone(partition: str) -> None:
    rows = [read_preset(f"{method}-fmnist-{partition}") for method in ("fedcog", "vhl")]
    assert [row.pop("methods") for row in rows] == ["fedcog", "vhl(generator='gaussian')"]
    assert rows[0] == rows[1]
