"""Somebody's own code: what is imported, what never is, and how its source is compared."""

import os
import sys
from pathlib import Path

import pytest

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.own_code import (
    VARIABLE,
    announce_sources,
    explain_other_source,
    find,
    hash_source,
    require_allowed,
)
from tests.support import nets

REFERENCE = "tests.support.nets:Plain"


def test_a_reference_finds_a_class_by_its_module() -> None:
    assert find(REFERENCE, "model") is nets.Plain


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("os:system", "os belongs to Python itself"),
        ("os.path:join", "os.path belongs to Python itself"),
        ("nowhere.nets:Net", "nowhere.nets cannot be imported .*; install it, or start from"),
        ("tests.support.nets:Plane", "nothing called 'Plane'; did you mean 'Plain'"),
        ("/nowhere/nets.py:Net", "there is no file"),
        ("/nowhere/nets.txt:Net", "its name must end with .py"),
    ],
)
def test_what_cannot_be_imported_gets_a_sentence(reference: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        find(reference, "model")


def test_a_module_that_fails_says_how(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(ConfigurationError, match="ZeroDivisionError: division by zero"):
        find(f"{tmp_path}/broken.py:Net", "model")


def test_folders_of_whoever_started_the_run_come_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file there cannot take the place of an installed package."""
    (tmp_path / "numpy.py").write_text("1 / 0")
    (tmp_path / "found_here.py").write_text("VALUE = 7")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(VARIABLE, os.pathsep.join([str(tmp_path)]))
    assert find("found_here:VALUE", "model") == 7
    assert sys.path[-1] == str(tmp_path)


def test_a_script_that_starts_a_run_while_it_is_imported_is_told_how_not_to(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from fedmirage import run\nrun(rounds=1)\n")
    with pytest.raises(FedmirageError, match=r"put that call below if __name__ == \"__main__\""):
        find(f"{script}:Net", "model")


# What a node allows


@pytest.mark.parametrize("allow", ["mylab", "other, mylab.nets", "mylab.nets:Net", "mylab.nets"])
def test_a_node_allows_what_its_owner_lists(allow: str) -> None:
    require_allowed(["mylab.nets:Net"], allow)


@pytest.mark.parametrize(
    "allow", ["", "my", "mylab.net", "mylab.nets.more", "mylab.nets:Other", "mylab.*"]
)
def test_a_node_allows_nothing_else(allow: str) -> None:
    with pytest.raises(FedmirageError) as raised:
        require_allowed(["mylab.nets:Net"], allow)
    sentence = (
        "this node does not import mylab.nets for a run; its owner lists what it may in allow="
    )
    assert str(raised.value) == sentence


def test_a_node_never_allows_python_itself() -> None:
    with pytest.raises(FedmirageError, match="this node does not import os for a run; its owner"):
        require_allowed(["os:system"], "mylab")
    with pytest.raises(FedmirageError, match="os belongs to Python itself"):
        require_allowed(["os:system"], "os")


def test_a_node_imports_no_file_that_a_run_names() -> None:
    with pytest.raises(
        FedmirageError, match=r"imports no file that a run names, such as '/tmp/n.py'"
    ):
        require_allowed(["/tmp/n.py:Net"], "/tmp, tmp")


# Source


def write_package(folder: Path, name: str) -> Path:
    package = folder / name
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "nets.py").write_text("from .blocks import Block as Net")
    (package / "blocks.py").write_text("class Block: pass")
    return package


def test_the_hash_covers_the_package_around_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = write_package(tmp_path, "hashed_lab")
    monkeypatch.syspath_prepend(tmp_path)
    reference = "hashed_lab.nets:Net"
    told = announce_sources([reference])
    assert explain_other_source([reference], told) == ""
    for file in ("blocks.py", "nets.py"):
        with (package / file).open("a") as source:
            source.write("\n# changed")
        hash_source.cache_clear()
        other = explain_other_source([reference], told)
        assert other.startswith("this node's hashed_lab.nets has other source than the server's")
        told = announce_sources([reference])
    assert "instead of no hash" in explain_other_source([reference], {})


def test_the_hash_of_a_file_covers_that_file(tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text("class Net: pass")
    before = hash_source(f"{file}:Net")
    (tmp_path / "neighbour.py").write_text("1")
    hash_source.cache_clear()
    assert hash_source(f"{file}:Net") == before
