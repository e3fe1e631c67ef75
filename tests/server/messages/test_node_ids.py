"""Whose node may serve which partition, and under which name."""

from pathlib import Path

import pytest

from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.server.messages.node_ids import VARIABLE, Site, identify, read_node_ids


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Node 7 is site-a, node 8 was admitted by an earlier version."""
    path = tmp_path / "nodes.toml"
    path.write_text('"7" = { name = "site-a", partition = 0 }\n"8" = 1\n')
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_files_of_earlier_versions_are_read(file: Path) -> None:
    assert read_node_ids(file) == {7: Site(0, "site-a"), 8: Site(1)}
    assert [str(site) for site in read_node_ids(file).values()] == ["site-a", "client 1"]


@pytest.mark.usefixtures("file")
def test_the_key_decides_the_name() -> None:
    assert identify(7, 0, "") == "site-a"
    assert identify(7, 0, "site-a") == "site-a"
    assert identify(8, 1, "") == ""


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("node", "partition", "claimed", "said"),
    [
        (9, 0, "site-a", "bound to no site; .* writes node 9 into the file"),
        (7, 1, "site-a", "bound to partition 0, but it says partition-id=1"),
        (7, 0, "site-b", "bound to the site 'site-a', but it says that it is 'site-b'"),
        (8, 1, "site-a", "bound to no name, but it says that it is 'site-a'"),
    ],
)
def test_nobody_takes_anothers_place(node: int, partition: int, claimed: str, said: str) -> None:
    with pytest.raises(WireError, match=said):
        identify(node, partition, claimed)


def test_without_a_file_a_node_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert identify(9, 3, "site-x") == "site-x"


@pytest.mark.parametrize(
    "text", ['"7" = -1', '"7" = true', '"7" = {}', '"7" = { name = "3", partition = 0 }', "x", "7"]
)
def test_a_file_that_binds_nothing_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(FedmirageError, match=r"nodes.toml, which cannot be used \("):
        identify(7, 0, "")
