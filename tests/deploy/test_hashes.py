"""The hashes of each Python belong to its lock, and the image is built from them."""

import re
import runpy
import sys

import pytest

from fedmirage.common.settings.project import ROOT

LOCKS = ROOT / "deploy" / "locks"
THIS = f"cp3{sys.version_info.minor}"
SCRIPT = runpy.run_path(str(ROOT / "deploy" / "hashes.py"))


def pins(text: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9-]+==[a-z0-9.]+", text, re.MULTILINE))


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_locked_package_but_torch_has_its_sums(python: str) -> None:
    locked = pins((LOCKS / f"{python}.lock").read_text())
    hashes = (LOCKS / f"{python}.hashes").read_text()
    left_out = {pin for pin in locked if pin.split("==")[0] in ("torch", "torchvision")}
    assert len(left_out) == 2
    assert pins(hashes) == locked - left_out, f"run `make lock PYTHON=python{python}`"
    entries = re.split(r"\n(?=[a-z0-9-]+==)", hashes)[1:]
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_image_gets_what_running_needs_and_no_tools() -> None:
    assert f"sed '/^{SCRIPT['TOOLS']}/,$d'" in (ROOT / "deploy" / "Dockerfile").read_text()
    hashes = (LOCKS / "3.11.hashes").read_text()
    needed, tools = (pins(part) for part in hashes.split(SCRIPT["TOOLS"]))
    assert {pin.split("==")[0] for pin in needed} >= {"flwr", "grpcio", "numpy", "setuptools"}
    assert {pin.split("==")[0] for pin in tools} >= {"pytest", "ruff", "mypy"}


@pytest.mark.parametrize(
    ("filename", "fits"),
    [
        (f"numpy-2.4.6-{THIS}-{THIS}-macosx_11_0_arm64.whl", True),
        ("numpy-2.4.6-cp310-cp310-macosx_11_0_arm64.whl", False),
        (f"numpy-2.4.5-{THIS}-{THIS}-macosx_11_0_arm64.whl", False),
        ("numpy-2.4.6-cp39-abi3-win_amd64.whl", True),
        ("numpy-2.4.6-cp314-abi3-win_amd64.whl", False),
        ("numpy-2.4.6-py2.py3-none-any.whl", True),
        ("numpy-2.4.6.tar.gz", True),
        ("numpy-2.4.6.win32.exe", False),
    ],
)
def test_files_for_this_python_on_any_platform_are_listed(filename: str, fits: bool) -> None:
    assert SCRIPT["fits"](filename, SCRIPT["Version"]("2.4.6")) is fits
