"""Networks as Python has them: which line names one, and what cannot be named."""

import functools
import linecache
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
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
        (3, "model=3 is an int; give a line, a class"),
        (local_function(), "is local_function.<locals>.Hidden, which other processes cannot find"),
        (lambda: nets.Plain(), "<lambda>, which other processes cannot find"),
        (functools.partial(nets.Plain, 3), "positional arguments (3,); name them"),
        (
            functools.partial(nets.Plain, width=torch.ones(1)),
            "width is a Tensor, which cannot be written down",
        ),
        (nets.Plain(width=7), "is a Plain that Plain() does not make again"),
        (nn.Sequential(nn.Linear(2, 2)), "write model=functools.partial(Sequential"),
    ],
)
def test_what_other_processes_cannot_make_gets_a_sentence(model: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        fedmirage.run(model=model, quiet=True)


def test_a_bad_network_is_named_beside_all_else_that_is_wrong() -> None:
    """Bad data, a bad split, a bad setting and an unknown method come with it, in one go."""
    digits, labels = np.zeros((9, 8, 8)), np.zeros(7, int)
    given: dict[str, Any] = {"dataset": (digits, labels), "partition": {"a": [1], "b": [1]}}
    for model, sentence in {
        3: "model=3 is an int",
        "nowhere_at_all:Net": "cannot be imported",
    }.items():
        with pytest.raises(ConfigurationError) as ran:
            fedmirage.run(model=model, lr=-1, methods="fedcgo", quiet=True, **given)
        with pytest.raises(ConfigurationError) as compared:
            fedmirage.compare("fedcgo", model=model, lr=-1, quiet=True, **given)
        words = [sentence, "9 images but 7 labels", "position 1 is listed 2", "lr=-1", "fedcgo"]
        for error in (ran, compared):
            assert all(any(word in one for one in error.value.problems) for word in words)


def test_a_network_and_a_file_of_weights_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="initial_weights= names others"):
        settle_network({"model": nets.Plain(), "initial_weights": "w.safetensors"})


def test_a_script_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = type_cells(monkeypatch, "class Net:\n    pass")
    main.__file__ = str(tmp_path / "script.py")
    assert name_network(main.Net) == f"{tmp_path}/script.py:Net"


# A notebook


def type_cells(monkeypatch: pytest.MonkeyPatch, *cells: str) -> Any:
    """Execute cells as a notebook does, which keeps their source for tracebacks."""
    main: Any = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for number, cell in enumerate(cells):
        name = f"<cell {number} of {monkeypatch!r}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), vars(main))
    return main


IMPORTS = "import torch\nfrom torch import Tensor, nn\nimport torch.nn.functional as F\nWIDTH = 3"
BLOCK = """
def act(values: Tensor) -> Tensor:
    return F.relu(values)

class Block(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return act(values)
"""
NET = """
print("a cell may do other things, which are not repeated")
class Net(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, width, 8), Block(), nn.Flatten())
        self.classifier = nn.Linear(width, 10)

    def forward(self, images):
        return self.classifier(self.features(images))
"""


def test_what_was_typed_into_a_notebook_is_written_to_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = type_cells(monkeypatch, IMPORTS, BLOCK, NET)
    line = name_network(functools.partial(main.Net, width=5))
    capsys.readouterr()
    assert build(line, (1, 8, 8), 10).feature_dim == 5
    assert capsys.readouterr().out == ""
    assert name_network(main.Net) == line.partition("(")[0]


def test_what_cannot_be_written_down_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = (IMPORTS, "WIDTH = torch.ones(1)", BLOCK, NET.replace("= WIDTH", "= int(WIDTH)"))
    main = type_cells(monkeypatch, *cells)
    with pytest.raises(ConfigurationError, match="WIDTH is a Tensor, which cannot be written down"):
        name_network(main.Net)


def test_a_session_without_source_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    main = type_cells(monkeypatch, IMPORTS, BLOCK, NET)
    linecache.clearcache()
    with pytest.raises(
        ConfigurationError, match="the source of Net is not known; write a function"
    ):
        name_network(main.Net)
