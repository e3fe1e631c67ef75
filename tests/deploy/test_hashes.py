"""requirements.hashes belongs to requirements.lock, and the image is built from it."""

import re
import runpy

import pytest

from fedmirage.common.settings.project import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
HASHES = (ROOT / "requirements.hashes").read_text()
SCRIPT = runpy.run_path(str(ROOT / "deploy" / "hashes.py"))


def pins(text: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9-]+==[a-z0-9.]+", text, re.MULTILINE))


def test_every_locked_package_but_torch_has_its_sums() -> None:
    left_out = {pin for pin in pins(LOCK) if pin.split("==")[0] in ("torch", "torchvision")}
    assert len(left_out) == 2
    assert pins(HASHES) == pins(LOCK) - left_out, "run `make lock`"
    entries = re.split(r"\n(?=[a-z0-9-]+==)", HASHES)[1:]
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_image_gets_what_running_needs_and_no_tools() -> None:
    assert f"sed '/^{SCRIPT['TOOLS']}/,$d'" in (ROOT / "deploy" / "Dockerfile").read_text()
    needed, tools = (pins(part) for part in HASHES.split(SCRIPT["TOOLS"]))
    assert {pin.split("==")[0] for pin in needed} >= {"flwr", "grpcio", "numpy", "setuptools"}
    assert {pin.split("==")[0] for pin in tools} >= {"pytest", "ruff", "mypy"}


@pytest.mark.parametrize(
    ("filename", "fits"),
    [
        ("numpy-2.4.6-cp311-cp311-macosx_11_0_arm64.whl", True),
        ("numpy-2.4.6-cp312-cp312-macosx_11_0_arm64.whl", False),
        ("numpy-2.4.5-cp311-cp311-macosx_11_0_arm64.whl", False),
        ("numpy-2.4.6-cp39-abi3-win_amd64.whl", True),
        ("numpy-2.4.6-cp313-abi3-win_amd64.whl", False),
        ("numpy-2.4.6-py2.py3-none-any.whl", True),
        ("numpy-2.4.6.tar.gz", True),
        ("numpy-2.4.6.win32.exe", False),
    ],
)
def test_files_for_this_python_on_any_platform_are_listed(filename: str, fits: bool) -> None:
    assert SCRIPT["fits"](filename, SCRIPT["Version"]("2.4.6")) is fits
