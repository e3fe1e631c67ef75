"""docs/add-a-method.md, executed as it is written, in a copy of the checkout."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)


def test_the_worked_example_runs_without_an_edit_to_any_file(tmp_path: Path) -> None:
    """Its own tests, the layout's, every pair with another method, and the same under secure
    aggregation."""
    for folder in ("common", "client", "server", "fedmirage", "experiments", "deploy", "tests"):
        ignored = shutil.ignore_patterns("e2e", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    blocks = BLOCK.findall((ROOT / "docs" / "add-a-method.md").read_text())
    assert [path for path, _ in blocks] == [
        "common/methods/prior.py",
        "client/methods/prior.py",
        "server/methods/prior.py",
        "tests/methods/test_prior.py",
    ]
    for path, code in blocks:
        assert not (tmp_path / path).exists()
        (tmp_path / path).write_text(code)
    its_own = ("tests/methods/test_prior.py", "tests/test_layout.py")
    others = ("tests/methods/test_pairs.py", "tests/rounds/test_secagg.py")
    check(tmp_path, *its_own, *others, "-k", "prior or test_layout")
    subprocess.run(
        [sys.executable, "-m", "ruff", "check", *(path for path, _ in blocks)],
        cwd=tmp_path,
        check=True,
    )


def check(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
