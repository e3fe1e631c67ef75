"""Which process may write into a run's folder, and when nothing is left to do."""

import os
from pathlib import Path

import pytest

from common.errors import FedmirageError
from common.settings.config import configure
from server.record import folder as folders
from server.record.folder import claim, find_finished, require_vacant
from server.record.results import Results, read
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
    with pytest.raises(FedmirageError, match=r"excludes clients=5 \(it was 4\), lr=0\.5 \(it was"):
        run_in_process(tmp_path, **other, resume=str(tmp_path))
    assert (tmp_path / "results.jsonl").read_text() == before


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
    assert read(results.path)[-1]["rounds"] == 2
