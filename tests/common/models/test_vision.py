"""torchvision is imported with every build of torch, and only on first use."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def python(code: str) -> str:
    """Run code in a new interpreter, because an import cannot be tested twice in this one."""
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_models_transforms_and_datasets_are_there_and_later_imports_get_the_same_package() -> None:
    code = """
from fedmirage.common.models.vision import torchvision
first, second = torchvision(), torchvision()
import torchvision
import torchvision.datasets
import torchvision.transforms.v2
print(first is second is torchvision, torchvision.models.resnet18().fc.out_features)
"""
    assert python(code) == "True 1000"


def test_another_failure_is_not_hidden_and_nothing_is_defined() -> None:
    code = """
import sys, importlib.abc, torch
class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            raise RuntimeError("something else is wrong")
sys.meta_path.insert(0, Broken())
from fedmirage.common.models.vision import torchvision
try:
    torchvision()
except RuntimeError as error:
    print(error, hasattr(torch.ops.torchvision, "nms"))
"""
    assert python(code) == "something else is wrong False"


def test_a_healthy_package_is_taken_as_it_is() -> None:
    code = """
import sys, types, torch
sys.modules["torchvision"] = types.ModuleType("torchvision")
from fedmirage.common.models.vision import torchvision
print(torchvision() is sys.modules["torchvision"], hasattr(torch.ops.torchvision, "nms"))
"""
    assert python(code) == "True False"


def test_small_models_do_not_import_torchvision_and_the_list_of_models_not_even_torch() -> None:
    code = """
import sys
from fedmirage.common.models.params import MODELS
print(len(MODELS), "torch" in sys.modules)
from fedmirage.common.models.factory import build
build("simple-cnn", (1, 28, 28), 10)
print("torchvision" in sys.modules)
"""
    assert python(code).split() == ["12", "False", "False"]
