"""A rehearsal has the bits of the deployment, in which every site has a SuperNode of its own."""

from pathlib import Path

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.node.sent import read_entries
from fedmirage.runtimes.grpc import Federation
from tests.support.commands import fedmirage
from tests.support.files import pictures, png, write_files
from tests.support.runs import assert_same_bits, without_times

pytestmark = pytest.mark.slow

KINDS = ("cat", "dog", "owl")


def write_site(folder: Path, seed: int, count: int) -> str:
    samples = pictures(3 * count, 12, 12, seed=seed)
    files = {f"{KINDS[n % 3]}/{n:02}.png": png(one) for n, one in enumerate(samples)}
    write_files(folder, files)
    return str(folder)


class Sites(Federation):
    """A federation whose SuperNodes are started as their owners would, with nothing of ours."""

    places: tuple[str, ...] = ()

    def spawn(self, name: str, *command: str) -> None:
        node = name.removeprefix("supernode-")
        more = f' data="{self.places[int(node)]}" skip=true' if node.isdecimal() else ""
        super().spawn(
            name, *(f"{word}{more}" if "partition-id" in word else word for word in command)
        )


def test_the_same_bits_as_three_supernodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    server, *places = (write_site(tmp_path / f"site-{n}", n, 4 + n) for n in range(4))
    for place in places:
        write_files(Path(place), {"cat/broken.png": b"no picture"})
    settings = {
        "dataset": f"imagefolder(path='{server}')",
        "methods": "scaffold",
        "model": "mlp",
        "rounds": 2,
        "local-steps": 2,
        "batch-size": 8,
    }
    home, rehearsed = tmp_path / "home", tmp_path / "rehearsed"
    words = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    done = fedmirage("rehearse", *places, *words, "--node-config", "skip=true", "--out", str(home))
    assert done.returncode == 0, done.stdout + done.stderr
    flat = {key.replace("-", "_"): value for key, value in settings.items()}
    config = configure({**flat, "clients": 3, "out": str(rehearsed)})
    (tmp_path / "logs").mkdir()
    with Sites(tmp_path, tmp_path / "logs", verbose=False) as federation:
        federation.places = tuple(places)
        federation.start(config, tmp_path / "memory")
        run = federation.submit(config)
        assert federation.wait(run, rehearsed)["status"] == "finished"
    assert_same_bits(home, rehearsed)
    assert without_times(home) == without_times(rehearsed)
    log = (tmp_path / "logs" / "supernode-2.log").read_text()
    assert "this node trains on 21 samples" in log
    assert "1 pictures could not be read and are left out (skip)" in log
    entries, damaged = read_entries(tmp_path / "memory" / "outgoing.jsonl")
    assert not damaged
    trained = [entry for entry in entries if entry["message"] == "train"]
    assert sorted((entry["round"], entry["partition"]) for entry in trained) == [
        (number, site) for number in (1, 2) for site in range(3)
    ]
    assert {*trained[0]["sections"]} == {"shared", "control-delta"}
