"""`fedmirage rehearse` plays a federation whose clients have the data of the sites."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.cli import app
from fedmirage.common.errors import ConfigurationError
from fedmirage.runtimes.sites import read_sites
from tests.support.files import pictures, png, write_files
from tests.support.runs import lines

SHORT = ["--rounds", "1", "--local-steps", "1", "--model", "mlp(hidden=8)", "--actors", "1"]


def write_site(folder: Path, seed: int, count: int = 6) -> str:
    samples = pictures(2 * count, 8, 8, seed=seed)
    kinds = ("cat", "dog")
    files = {f"{kinds[n % 2]}/{n:02}.png": png(one) for n, one in enumerate(samples)}
    write_files(folder, files)
    return str(folder)


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    return [write_site(tmp_path / f"site-{n}", n, 3 + n) for n in range(2)]


def rehearse(tmp_path: Path, *more: str, own: bool = True) -> None:
    server = write_site(tmp_path / "server", 9)
    line = ["--dataset", f'imagefolder(path="{server}")'] if own else []
    words = ["rehearse", *more, *line, "--out", str(tmp_path / "run"), *SHORT]
    app(words, standalone_mode=False)


def test_every_client_trains_on_the_whole_set_of_its_site(
    tmp_path: Path, sites: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rehearse(tmp_path, *sites)
    said = capsys.readouterr().out
    assert "site 1, data:" in said.replace("\n", " ")
    (config,), (summary,) = (lines(tmp_path / "run", kind) for kind in ("config", "summary"))
    assert config["clients"] == 2
    assert summary["status"] == "finished"
    trained = [client["examples"] for client in lines(tmp_path / "run")[0]["clients"]]
    assert trained == [6, 8]
    assert [site["data"] for site in read_sites(tmp_path / "run")] == sites
    with pytest.raises(ConfigurationError, match="is a rehearsal of other sites"):
        app(["run", "--resume", str(tmp_path / "run"), "--rounds", "2"], standalone_mode=False)


def refused(tmp_path: Path, *words: str, **options: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as error:
        rehearse(tmp_path, *words, **options)
    return error.value.problems


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, sites: list[str]) -> None:
    write_files(Path(sites[0]), {"cat/bad.png": b"no"})
    away = str(tmp_path / "nowhere")
    problems = refused(
        tmp_path, *sites, sites[1], away, "--clients", "3", "--batch-size", "0", own=False
    )
    told = ["--clients 3", "named twice", "1 of 7 pictures cannot be read", "nothing is there"]
    told += ["--dataset is missing", "batch-size"]
    assert len(problems) == len(told), problems
    for problem, part in zip(problems, told, strict=True):
        assert part in problem


def test_what_each_node_would_have(tmp_path: Path, sites: list[str]) -> None:
    write_files(Path(sites[0]), {"cat/bad.png": b"no"})
    rehearse(tmp_path, *sites, "--node-config", "skip=true")
    assert [client["examples"] for client in lines(tmp_path / "run")[0]["clients"]] == [6, 8]
    problems = refused(tmp_path, *sites, "--node-config", 'memory="/x"')
    assert "memory cannot be set; each site has its own" in problems[0]
