"""Somebody's own method on deployed nodes: one that has other source than the server is refused."""

from pathlib import Path

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.common.own_code import announce_sources, hash_source
from tests.support.deployed import SMALL, deploy
from tests.support.inprocess import run_in_process
from tests.support.plugins import install_skeleton
from tests.support.runs import assert_same_bits

PACKAGE = "fedmirage_hashed_prior"
REFERENCE = f"{PACKAGE}:HashedPrior"
METHOD = "hashed-prior(strength=1.0)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package of the method is installed."""
    folder = install_skeleton("hashed-prior", tmp_path / "installed")
    monkeypatch.syspath_prepend(folder)
    return folder


def test_a_node_with_another_version_of_a_method_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server announces the source as it was, and the nodes have a later one of one half."""
    told = announce_sources([REFERENCE])
    with (folder / PACKAGE / "client.py").open("a") as half:
        half.write("# a later version\n")
    hash_source.cache_clear()
    monkeypatch.setattr("fedmirage.server.run.announce_sources", lambda references: told)
    sentence = (
        f"this node's {PACKAGE} has other source than the server's .* install the same version on"
        " both"
    )
    with pytest.raises(FedmirageError, match=sentence):
        deploy(tmp_path / "run", {"allow": PACKAGE}, methods=METHOD)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_nodes_with_the_same_version_train_and_give_the_same_bits(
    folder: Path, tmp_path: Path
) -> None:
    deploy(tmp_path / "run", {"allow": PACKAGE}, methods=METHOD)
    run_in_process(tmp_path / "plain", **{**SMALL, "methods": METHOD})
    assert_same_bits(tmp_path / "run", tmp_path / "plain")
