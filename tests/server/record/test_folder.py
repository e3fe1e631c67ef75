"""Which process may write into a run's folder, and when nothing is left to do."""

import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.errors import FedmirageError
from fedmirage.common.settings.config import configure
from fedmirage.server.record import checkpoint
from fedmirage.server.record import folder as folders
from fedmirage.server.record.folder import claim, explain, find_finished, require_vacant
from fedmirage.server.record.results import FILE, Results, read_results
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, lines


def test_a_second_writer_is_told_the_id_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PATIENCE", 0.1)
    with (
        claim(tmp_path),
        pytest.raises(FedmirageError, match=f"process {os.getpid()} is writing into"),
        claim(tmp_path),
    ):
        pass
    with claim(tmp_path):
        pass


def test_a_run_claims_its_folder_and_leaves_that_of_another_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PATIENCE", 0.1)
    with claim(tmp_path), pytest.raises(FedmirageError, match="is writing into"):
        run_in_process(tmp_path, **SMALL)
    assert not (tmp_path / "results.jsonl").exists()


def test_a_folder_without_a_finished_round_is_vacant(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError):
        run_in_process(tmp_path, **SMALL, lr=1e20, retries=0)
    assert lines(tmp_path, "summary")
    run_in_process(tmp_path, **SMALL)
    assert [line["status"] for line in lines(tmp_path, "summary")] == ["finished"]
    with pytest.raises(FedmirageError, match="holds the results of another run"):
        require_vacant(configure(SMALL), tmp_path)


def test_a_finished_run_is_not_touched_when_it_is_resumed(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    before = (tmp_path / "results.jsonl").read_text()
    run_in_process(tmp_path, **SMALL, resume=str(tmp_path))
    assert (tmp_path / "results.jsonl").read_text() == before
    longer = configure({**SMALL, "rounds": 4, "resume": str(tmp_path)})
    assert find_finished(longer, tmp_path) is None


def test_a_run_is_not_continued_with_other_settings(tmp_path: Path) -> None:
    """`flwr run` and Python programs name all settings themselves."""
    run_in_process(tmp_path, **SMALL)
    before = (tmp_path / "results.jsonl").read_text()
    other = {**SMALL, "rounds": 4, "clients": 5, "lr": 0.5}
    with pytest.raises(FedmirageError, match=r"you gave clients=5 \(it was 4\), lr=0\.5 \(it was"):
        run_in_process(tmp_path, **other, resume=str(tmp_path))
    assert (tmp_path / "results.jsonl").read_text() == before


def change_first_line(folder: Path, **more: Any) -> None:
    first, *others = read_results(folder / "results.jsonl")
    changed = [{**first, **more}, *others]
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))


def test_a_run_of_another_version_whose_settings_are_unknown_is_not_continued(
    tmp_path: Path,
) -> None:
    run_in_process(tmp_path, **SMALL)
    change_first_line(tmp_path, warmth=3, versions={"fedmirage": "9.1"})
    told = r"begun by fedmirage 9\.1 with warmth=3, which fedmirage .* continue it with the version"
    with pytest.raises(FedmirageError, match=told):
        run_in_process(tmp_path, **{**SMALL, "rounds": 4}, resume=str(tmp_path))


def test_a_run_that_goes_on_with_other_versions_says_so_once(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    versions = lines(tmp_path, "config")[0]["versions"]
    change_first_line(tmp_path, versions={**versions, "torch": "1.0", "jax": "1.0"})
    for rounds in (3, 4):
        run_in_process(tmp_path, **{**SMALL, "rounds": rounds}, resume=str(tmp_path))
    (note,) = lines(tmp_path, "note")
    assert f"goes on with torch {versions['torch']} (it was 1.0), which" in note["text"]
    assert lines(tmp_path, "config")[0]["versions"] == versions


def test_a_place_where_no_folder_can_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        told = f"out='{out}': {tmp_path / 'file'} is a file; choose another"
        with pytest.raises(FedmirageError, match=told), claim(out):
            pass
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    told = f"this user may not write into {tmp_path}; choose another folder"
    with pytest.raises(FedmirageError, match=told), claim(tmp_path / "new" / "run"):
        pass
    assert not (tmp_path / "new").exists()


def test_a_full_disk_ends_a_run_with_the_place_and_the_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(self: Results, line: dict[str, Any]) -> None:
        if line["kind"] == "round":
            with self.path.open("a") as file:
                file.write('{"kind": "rou')
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, line)

    append = Results.append
    monkeypatch.setattr(Results, "append", fill)
    told = f"No space left on device while writing {tmp_path}; free some space there, then start"
    with pytest.raises(FedmirageError, match=told):
        run_in_process(tmp_path, **SMALL)
    summary = read_results(tmp_path / FILE)[-1]
    assert summary["status"] == "failed"
    assert summary["reason"].startswith(told)
    (tmp_path / checkpoint.FILE).touch()
    full = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    assert explain(full, tmp_path).endswith(f"fedmirage run --resume {tmp_path}")
    told = "the server's process was told to end"
    assert explain(KeyboardInterrupt(), tmp_path).startswith(told)
    assert explain(SystemExit(0), tmp_path).startswith(told)  # how Flower ends a ServerApp
    assert explain(ValueError("odd"), tmp_path).startswith(
        "the server's code raised ValueError: odd"
    )
    assert (tmp_path / "traceback.txt").read_text() == "ValueError: odd\n"


@pytest.mark.parametrize("torn", ["", '{"kind": "round", "rou'])
def test_an_interrupted_file_ends_with_one_summary(tmp_path: Path, torn: str) -> None:
    """Rounds after the checkpoint are dropped, and so is an incomplete line."""
    run_in_process(tmp_path, **SMALL)
    results = Results(tmp_path)
    results.forget_after(3)
    results.finish("failed")
    with results.path.open("a") as file:
        file.write(torn)
    results.interrupt(2)
    assert [line["round"] for line in lines(tmp_path)] == [1, 2]
    assert [line["status"] for line in lines(tmp_path, "summary")] == ["interrupted"]
    assert read_results(results.path)[-1]["rounds"] == 2


@pytest.mark.parametrize("fails", ["open", "write"])
def test_a_full_disk_for_the_lock_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    class Full(io.FileIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    def open_full(path: Path, *_: Any, **__: Any) -> io.FileIO:
        if fails == "open":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return Full(path, "a+")

    monkeypatch.setattr(Path, "open", open_full)
    with (
        pytest.raises(FedmirageError, match=r"No space left on device while writing .*; free some"),
        claim(tmp_path),
    ):
        raise AssertionError("the folder was claimed")


def test_whoever_claims_a_folder_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    """Also in the memories of a run that began again, under another name."""
    places = [tmp_path, tmp_path / "models", tmp_path / "memory" / "abc" / "client-00001"]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / f".file.safetensors.{2**22 + 1}.tmp").write_text("")  # no process has such an id
    with claim(tmp_path):
        assert not list(tmp_path.rglob("*.tmp"))
