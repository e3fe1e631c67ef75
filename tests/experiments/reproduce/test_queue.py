"""A queue: its order, what it refuses, what it leaves out, and the time that is left of it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.reproduce.jobs import numbers_of
from experiments.reproduce.queue import read_queue
from experiments.reproduce.recording import (
    find_recorded,
    leave_out_recorded,
    record_finished,
    set_aside_without_models,
    show_state,
    time_left,
)
from experiments.reproduce.records import RESULTS, recorded_runs
from fedmirage.common.errors import ConfigurationError
from fedmirage.server.record import checkpoint
from tests.support.queues import write_queue


def test_everything_that_is_wrong_with_a_queue_is_refused_at_once(tmp_path: Path) -> None:
    text = """
    job = [
        {{ name = "one", seeds = [1, 1] }},
        {{ name = "two", settings = {{ methods = "fedprx", seed = 3 }} }},
        {{ name = "three", parent = "onne@2" }},
        {{ name = "four", parent = "three@2000", seeds = [7] }},
        {{ name = "five", cell = {{ table = "fedcog/table1", row = "fedreg", column = "CELL" }} }},
        {{ name = "five" }},
    ]
    """
    with pytest.raises(ConfigurationError) as caught:
        read_queue(write_queue(tmp_path, 1, text.replace("CELL", "average")))
    told = "\n".join(caught.value.problems)
    for part in (
        "job one: seeds=[1, 1]",
        "job two: the queue decides seed",
        "job two: methods: no method is called 'fedprx'",
        "job three: parent='onne@2': no job above it has this name; did you mean 'one'?",
        "job four: parent='three@2000': that job has no seed 7",
        "job four: parent='three@2000': one of the two ends after round",
        "job five: fedcog/table1, row fedreg, column average cannot be run: FedReg is not",
        "job five: two jobs have this name",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("job = [{{ name = 'a b' }}]", "job.0.name"),
        ("job = [{{ name = 'a', parent = 'b' }}]", "job.0.parent"),
        ("jobs = []", "job: Field required"),
        ("job = []", "job: Tuple should have at least 1 item"),
        ("job = [{{ name = 'a', seeds = [-1] }}]", "job.0.seeds.0"),
        ("job =", "cannot be read as TOML"),
    ],
)
def test_a_file_that_is_no_queue_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read_queue(write_queue(tmp_path, 1, text))


def test_jobs_that_would_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    parents = {"one": "three@1", "two": "one@1", "three": "two@1", "four": "one@1"}
    text = "".join(
        f"[[job]]\nname = '{name}'\nparent = '{parent}'\n" for name, parent in parents.items()
    )
    with pytest.raises(ConfigurationError) as error:
        read_queue(write_queue(tmp_path, 1, text))
    (problem,) = error.value.problems  # the others begin from a job above them
    assert "job one: parent='three@1': no job above it has this name" in problem


def test_cells_of_tables_share_their_first_rounds(tmp_path: Path) -> None:
    cell = '{{ table = "fedcog/table1", row = "ROW", column = "fmnist-niid2" }}'
    text = "out = '{out}'\n" + "".join(
        f'[[job]]\nname = "{row}"\ncell = {cell.replace("ROW", row)}\n'
        for row in ("fedavg", "fedcog")
    )
    fedavg, fedcog = read_queue(write_queue(tmp_path, 1, text)).jobs
    assert fedavg.config.keep_models == "all"
    assert fedcog.parent == fedavg.folder
    assert fedcog.config.warm_start == f"{fedavg.folder}@50"
    assert (fedcog.rounds, fedcog.needs_parent) == (20, False)


def finish(folder: Path, settings: dict[str, Any]) -> None:
    """Write what a finished run of these settings leaves, without doing it."""
    line = {"kind": "round", "round": settings["rounds"], "accuracy": 0.5, "bytes_up": 1}
    line |= {"bytes_down": 1, "seconds": {"round": 1.0}}
    end = {"kind": "summary", "status": "finished", "rounds": settings["rounds"]}
    end |= {"bytes_up": 1, "bytes_down": 1}
    folder.mkdir(parents=True)
    texts = [json.dumps(one) for one in ({"kind": "config", **settings}, line, end)]
    (folder / "results.jsonl").write_text("\n".join(texts) + "\n")


def test_every_job_has_its_first_seed_before_any_has_its_second(tmp_path: Path) -> None:
    jobs = read_queue(write_queue(tmp_path, 3)).jobs
    names = ["fedavg-s0", "step-s0", "broken-s0", "orphan-s0", "fedavg-s1"]
    assert [str(job) for job in jobs] == names


def test_recorded_runs_are_left_out_unless_another_begins_from_them(tmp_path: Path) -> None:
    """Children may come first, as their seeds may, and are recorded after their parents."""
    child = "settings = {{ rounds = 3, lr = 0.001 }}\nparent = 'one@1'\n"
    text = "out = '{out}'\nresults = 'DOCS'\n" + "".join(
        f"[[job]]\nname = '{name}'\n{rest}"
        for name, rest in {"one": "settings = {{ rounds = 3 }}\n", "two": child}.items()
    )
    path = write_queue(tmp_path, 1, text.replace("DOCS", str(tmp_path / "docs")))
    (tmp_path / "docs").mkdir()
    _, (one, two), results = read_queue(path)
    assert results is not None
    for job in (two, one):
        finish(job.folder, job.config.flat())
    told = list(record_finished([two, one], results))
    assert [text.split("/")[-2] for text in told] == ["one-s0", "two-s0"]
    assert list(record_finished([two, one], results)) == []
    for job in (two, one):
        shutil.rmtree(job.folder)
    assert leave_out_recorded([two, one], results) == []
    assert find_recorded([two, one], results) == {two.folder, one.folder}
    shutil.rmtree(results / "runs/two-s0")
    assert leave_out_recorded([two, one], results) == [two, one]
    assert find_recorded([two, one], results) == set()
    assert leave_out_recorded([two, one], None) == [two, one]
    two.folder.mkdir(parents=True)
    (two.folder / checkpoint.FILE).touch()  # it has begun, and needs the other no longer
    (rest,) = leave_out_recorded([two, one], results)
    assert (rest.folder, rest.parent) == (two.folder, None)
    assert find_recorded([two, one], results) == {one.folder}


def test_a_run_that_was_recorded_with_other_settings_is_repeated(tmp_path: Path) -> None:
    results = tmp_path / "docs"
    (job,) = read_queue(write_queue(tmp_path, 1, "job = [{{ name = 'one' }}]")).jobs
    finish(results / "runs/one-s0", {**job.config.flat(), "lr": 0.123})
    assert leave_out_recorded([job], results) == [job]
    shutil.rmtree(results)
    settings = job.config.flat()
    del settings["schedule"]  # younger than the recorded run, which had the usual one
    finish(results / "runs/one-s0", settings)
    assert leave_out_recorded([job], results) == []
    other = replace(job, config=job.config.model_copy(update={"schedule": "cosine"}))
    assert leave_out_recorded([other], results) == [other]
    record = results / "runs/one-s0/results.jsonl"
    record.write_text(record.read_text().splitlines()[0] + "\n")  # its rounds are missing
    assert leave_out_recorded([job], results) == [job]


def test_a_run_that_begins_elsewhere_is_not_the_recorded_one(tmp_path: Path) -> None:
    results = tmp_path / "docs"
    text = "job = [{{ name = 'one' }}, {{ name = 'two', parent = 'one@ROUND' }}]"
    _, (one, two), _ = read_queue(write_queue(tmp_path, 1, text.replace("ROUND", "1")))
    for job in (one, two):
        finish(results / "runs" / job.folder.name, job.config.flat())
    assert leave_out_recorded([one, two], results) == []
    _, (one, two), _ = read_queue(write_queue(tmp_path, 1, text.replace("ROUND", "2")))
    assert leave_out_recorded([one, two], results) == [one, two]


def test_a_recorded_run_is_not_repeated_to_save_a_few_rounds(tmp_path: Path) -> None:
    text = "".join(
        f"[[job]]\nname = '{name}'\nsettings = {{{{ methods = '{name}', rounds = 9 }}}}\n"
        for name in ("fedavg", "dynafed")
    )
    _, (fedavg, dynafed), _ = read_queue(write_queue(tmp_path, 1, text))
    shared = {"warm_start": f"{fedavg.folder}@2"}
    dynafed = replace(
        dynafed, config=dynafed.config.model_copy(update=shared), parent=fedavg.folder
    )
    results = tmp_path / "docs"
    finish(results / "runs/fedavg-s0", fedavg.config.flat())
    (alone,) = leave_out_recorded([fedavg, dynafed], results)
    assert (alone.folder, alone.parent, alone.config.warm_start) == (dynafed.folder, None, "")
    assert leave_out_recorded([fedavg, dynafed], None) == [fedavg, dynafed]


@pytest.mark.parametrize(
    ("kept", "taken", "repeated"), [("last", 2, 1), ("last", 3, 0), ("all", 2, 0)]
)
def test_a_parent_that_kept_no_models_is_repeated(
    tmp_path: Path, kept: str, taken: int, repeated: int
) -> None:
    """It was begun before it had a child; a model of its last round, 3, every run keeps."""
    text = "out = '{out}'\njob = [{{ name = 'one', settings = {{ rounds = 3 }} }},"
    text += f"{{{{ name = 'two', settings = {{{{ rounds = 4 }}}}, parent = 'one@{taken}' }}}}]"
    one, two = read_queue(write_queue(tmp_path, 1, text)).jobs
    assert one.config.keep_models == "all"
    finish(one.folder, {**one.config.flat(), "keep-models": kept})
    (one.folder / checkpoint.FILE).touch()
    told = list(set_aside_without_models(leave_out_recorded([one, two], None)))
    assert [
        text.startswith("one-s0 is repeated: it kept no model of round 2") for text in told
    ] == [True] * repeated
    assert one.folder.exists() is not bool(repeated)
    assert len(list(one.folder.parent.glob("one-s0.*/results.jsonl"))) == repeated
    assert leave_out_recorded([one, two], None) == [one, two]
    assert list(set_aside_without_models([one, two])) == []


def test_a_folder_for_records_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="results='nowhere': there is no such folder"):
        read_queue(write_queue(tmp_path, 1, "results = 'nowhere'\njob = [{{ name = 'one' }}]"))


def test_the_queues_of_the_pages_have_the_recorded_runs() -> None:
    """Whoever does them gets the runs under the names that the pages' tables use."""
    queues = (RESULTS / "queue.toml", RESULTS / "modalities.toml")
    jobs = [job for queue in queues for job in read_queue(queue).jobs]
    named = {job.folder.name: job.config for job in jobs}
    for folder, settings in recorded_runs().items():
        config = named[folder.name]
        recorded = numbers_of(settings)
        for key, value in numbers_of(config.flat()).items():
            assert recorded.get(key, value) == value  # settings may be younger than the run
        assert config.seed == settings["seed"]


def test_the_time_left_comes_from_what_was_measured(tmp_path: Path) -> None:
    """FedAvg with seed 0 has done one of three rounds in 10 s: 20 s are left of it, and 30 s of
    seed 1, which has done none; two at a time need 25 s for both."""
    text = (
        "out = '{out}'\njob = [{{ name = 'fedavg', seeds = [0, 1], settings = {{ rounds = 3 }} }}]"
    )
    jobs = read_queue(write_queue(tmp_path, 1, text)).jobs
    folder = jobs[0].folder
    folder.mkdir(parents=True)
    begun = {"kind": "config", "warm-start": "", **jobs[0].config.flat()}
    line = {"kind": "round", "round": 1, "seconds": {"round": 10.0}, "bytes_up": 1, "bytes_down": 1}
    (folder / "results.jsonl").write_text(f"{json.dumps(begun)}\n{json.dumps(line)}\n")
    seconds = {jobs[0].folder: 10.0, jobs[1].folder: None}
    assert [time_left(job, jobs, seconds) for job in jobs] == [20.0, 30.0]
    assert "left: 25 s" in str(show_state(jobs, 2, {}).title)
