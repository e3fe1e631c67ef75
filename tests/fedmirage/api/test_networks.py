"""Networks as Python has them: which line names one, and what cannot be named."""

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedmirage
from fedmirage.api.networks import name_network, settle_network
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.models.factory import build
from fedmirage.common.run import blueprint
from fedmirage.common.settings.config import configure
from tests.support import nets
from tests.support.commands import wide

HOME = "tests.support.nets"


def test_a_class_a_function_and_a_partial_become_lines() -> None:
    assert name_network(nets.Plain) == f"{HOME}:Plain"
    assert name_network(nets.plain) == f"{HOME}:plain"
    line = name_network(functools.partial(nets.Rich, width=3, head="fc"))
    assert line == f"{HOME}:Rich(width=3, head='fc')"
    assert build(line, (1, 8, 8), 10).feature_dim == 3
    assert settle_network({"rounds": 1}) == {"rounds": 1}
    assert settle_network({"model": "mlp"}) == {"model": "mlp"}


def test_a_network_that_is_made_brings_its_weights() -> None:
    network = nets.Rich()
    settings = settle_network({"model": network, "rounds": 1})
    settings["model"] += "(head='fc')"
    model = blueprint(configure(settings), (1, 8, 8), 10)
    images = torch.randn(2, 1, 8, 8)
    assert torch.equal(model.eval()(images), network.eval()(images))


def local_function() -> Any:
    """A class that nobody else can find."""

    class Hidden(nn.Module):
        pass

    return Hidden


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (3, "model=3 is a int; give a line, a class"),
        (local_function(), "is local_function.<locals>.Hidden, which other processes cannot find"),
        (lambda: nets.Plain(), "<lambda>, which other processes cannot find"),
        (functools.partial(nets.Plain, 3), "positional arguments (3,); name them"),
        (functools.partial(nets.Plain, width=torch.ones(1)), "is neither a number nor a text"),
        (nets.Plain(width=7), "is a Plain that Plain() does not make again"),
        (nn.Sequential(nn.Linear(2, 2)), "write model=functools.partial(Sequential"),
    ],
)
def test_what_other_processes_cannot_make_gets_a_sentence(model: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        fedmirage.run(model=model, quiet=True)


def test_a_network_and_a_file_of_weights_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="initial_weights= names others"):
        settle_network({"model": nets.Plain(), "initial_weights": "w.safetensors"})


SCRIPT = """
import fedmirage
from fedmirage.api.networks import name_network

class Net:
    pass

{guard}
    try:
        print(name_network(Net))
    except fedmirage.ConfigurationError as error:
        print(error)
"""


def test_a_script_is_named_by_its_file_and_a_session_gets_a_sentence(tmp_path: Path) -> None:
    code = SCRIPT.format(guard='if __name__ == "__main__":')
    (tmp_path / "script.py").write_text(code)
    for arguments, expected in (
        ([str(tmp_path / "script.py")], f"{tmp_path}/script.py:Net"),
        (
            ["-c", code],
            "with %%writefile nets.py at the top of its cell, then: from nets import Net",
        ),
    ):
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=True, env=wide()
        )
        assert expected in done.stdout
