"""results.jsonl: runs write the keys that the format declares, and readers meet odd values.

Each reader shows a run with odd values, or says in a sentence what is wrong.
"""

import copy
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from fedmirage.api.runs import RunResult
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import defaults
from fedmirage.common.wire.metrics import DIAGNOSTICS, MEANINGS
from fedmirage.comparison.folders import lay_out_runs
from fedmirage.comparison.scores import read_score
from fedmirage.follow.live import DATA, LivePage
from fedmirage.report.command import write_report
from fedmirage.server.record.folder import find_finished, require_vacant
from fedmirage.server.record.format import KINDS
from fedmirage.server.record.results import FILE, Results, read_results
from fedmirage.settings.layers import settle
from tests.support.comparison import plan_records, read_lines, write_lines, write_run
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL

RECORDED = sorted((Path(__file__).parents[3] / "docs/results/runs").glob("*/results.jsonl"))
Keys = tuple[str | int, ...]
ODD: list[Any] = [None, "x", [], 1e999]
MORE: list[Any] = [True, -1, {}, [None], {"x": None}, {"x": []}, float("nan"), 10**400, "\ud800"]


def validate(line: dict[str, Any]) -> None:
    """Check a line; extra metrics must have names that the code explains."""
    known = KINDS[line["kind"]].model_validate(line)
    for part in [known, *_parts(known)]:
        strange = [name for name in part.model_extra or {} if not is_explained(name)]
        assert strange == []


def is_explained(name: str) -> bool:
    """Whether it is a setting, a metric that has a meaning, or begins with a method's name."""
    names = (name, f"{DIAGNOSTICS}{name}")  # the line's own `diagnostics` drops that prefix
    return (
        name in (*defaults(), "accuracy")
        or name.partition(".")[0] in METHODS
        or any(fnmatch(one, pattern) for one in names for pattern in MEANINGS)
    )


def _parts(part: Any) -> list[Any]:
    values = [getattr(part, name) for name in type(part).model_fields]
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    inner = [item for item in flat if hasattr(item, "model_extra")]
    return [*inner, *(deeper for item in inner for deeper in _parts(item))]


@pytest.mark.parametrize(
    "settings",
    [
        {"methods": "fedcog(start=2, samples=8, steps=2)", "target": 0.5},
        {
            "methods": "vhl(per_class=2)",
            "diagnostics": True,
            "momentum": 0.9,
            "optimizer_state": "kept",
        },
        {"methods": "scaffold", "local_evaluation": True, "dataset": "digits-domains(limit=300)"},
        {"methods": "fedavgm, swa(length=2)", "validation": 0.2, "patience": 1},
        {"methods": "distil(steps=1, per_class=1, real_per_class=4)"},
        {"secagg": "on(max_examples=500)"},
        {"dp": "central(clip=1, noise=1)"},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_the_lines_of_a_run_have_the_declared_keys(tmp_path: Path, settings: Any) -> None:
    run_in_process(tmp_path, **{**SMALL, **settings})
    lines = read_results(tmp_path / "results.jsonl")
    assert lines[-1]["kind"] == "summary"
    for line in lines:
        validate(line)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_recorded_lines_have_them_too(path: Path) -> None:
    """A recorded run leaves out single clients, and where it ran."""
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line["kind"] == "round":
            line = {**line, "clients": []}
            line.pop("client_seconds", None)
        validate(line)


def test_a_key_that_nobody_declared_is_found() -> None:
    note = {"kind": "note", "round": 1, "text": "text"}
    validate(note)
    with pytest.raises(ValidationError):
        validate({**note, "colour": "red"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run whose lines have everything that a line can have."""
    plan = plan_records(tmp_path, seeds="0")
    job = plan.runs({})[0]
    write_run(job, 0.6)
    first, *rounds, summary = read_lines(job.folder)
    first |= {"cautions": ["a caution"], "acts_from": {"fedavg": 1}, "target": 0.1}
    for line in rounds:
        line["dp"] = {"epsilon": 2.0, "delta": 1e-5, "clipped": 0.5}
        line["evaluation"] |= {"domains": {"a": 0.5}, "accuracy_domain_mean": 0.5}
        line["evaluation"] |= {"local_model.on_test_shard.by_examples.accuracy": 0.5}
        line["refused"] = [{"partition": 1, "reason": "late"}]
        line["methods"] = {"fedexp.step": 1.5}
        line["validation"] = {"loss": 1.0, "accuracy": 0.5}
        line["clients"][0] |= {"examples": 9, "seconds.x": 1.0, "train": {"task": 1.0}}
    summary |= {"final_accuracy": 0.6, "notes": ["a note"], "idle": {"x": "late"}, "seconds": 1.0}
    summary |= {"dp": rounds[-1]["dp"], "reason": "none"}
    summary["final_evaluation"] |= rounds[-1]["evaluation"]
    between = [
        {"kind": "note", "round": 7, "text": "a note"},
        {"kind": "retry", "round": 7, "attempt": 1, "reason": "late"},
        {"kind": "preparation", "round": 7, "clients": [], "seconds": 1.0},
    ]
    write_lines(job.folder, [first, *rounds, *between, summary])
    return job.folder


def list_keys(value: Any, prefix: Keys = ()) -> Iterator[Keys]:
    """All keys of a line, those in its objects and in the first entries of its lists included."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value[:1]):
        yield (*prefix, key)
        if isinstance(item, dict | list):
            yield from list_keys(item, (*prefix, key))


def with_odd_values(lines: list[Any], odd: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Give the last line of every kind each odd value under each of its keys."""
    last = {line["kind"]: number for number, line in enumerate(lines)}
    for number in last.values():
        for path in list_keys(lines[number]):
            for value in odd:
                changed = copy.deepcopy(lines)
                at = changed[number]
                for key in path[:-1]:
                    at = at[key]
                at[path[-1]] = value
                yield f"{lines[number]['kind']} {path} {value!r}"[:200], changed


def report(folder: Path) -> None:
    files = {kind: folder / f"numbers.{kind}" for kind in ("csv", "json", "latex")}
    write_report([folder], folder / "page.html", files, tsne=False)


def compare(folder: Path) -> None:
    Console(file=io.StringIO(), width=200).print(lay_out_runs([folder]))
    read_score(folder)


def watch(folder: Path) -> None:
    page = LivePage(0, Console(file=io.StringIO()))
    page.add([folder])
    assert page.respond(DATA)


def load(folder: Path) -> None:
    run = RunResult(folder)
    assert (len(run.rounds), repr(run), run._repr_html_()) != (0, "", "")
    assert run.clients is not None


def resume(folder: Path) -> None:
    config = settle([], {"resume": str(folder), "rounds": "9"})
    if find_finished(config, folder) is None:
        require_vacant(config, folder)
        results = Results(folder)
        results.resume(config, 5)
        results.finish("finished")


USES = [compare, load, report, watch, resume]


def test_the_whole_record_is_accepted(folder: Path) -> None:
    for use in USES:
        use(folder)
    assert [line["round"] for line in read_lines(folder) if line["kind"] == "round"] == [
        *range(1, 6)
    ]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("odd", [ODD, pytest.param(MORE, marks=pytest.mark.slow)])
def test_a_reader_meets_an_odd_value_with_a_sentence(
    folder: Path, use: Callable[[Path], None], odd: list[Any]
) -> None:
    lines, trials = read_lines(folder), 0
    for what, changed in with_odd_values(lines, odd):
        write_lines(folder, changed)
        trials += 1
        try:
            use(folder)
        except FedmirageError:
            continue
        except Exception as error:
            raise AssertionError(what) from error
    assert trials > 80 * len(odd)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("config", ("seed",)),
        ("round", ("bytes_up",)),
        ("round", ("seconds", "round")),
        ("round", ("clients", 0, "partition")),
        ("round", ("refused", 0, "reason")),
        ("round", ("dp", "delta")),
        ("note", ("text",)),
        ("summary", ("status",)),
    ],
)
def test_a_line_without_what_readers_need_is_damaged(folder: Path, kind: str, path: Keys) -> None:
    lines = read_lines(folder)
    at = next(line for line in lines if line["kind"] == kind)
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    write_lines(folder, lines)
    said = f"is a {kind} without '{'.'.join(map(str, path))}'"
    with pytest.raises(DataError, match=re.escape(said)):
        read_results(folder / FILE)


def test_what_is_not_finite_was_written_as_null_and_is_shown_as_unknown(folder: Path) -> None:
    """A hostile client may report that its methods took infinitely long."""
    lines = read_lines(folder)
    for line in lines[1:-4]:
        line["diagnostics"]["drift"] = None
        line["clients"][0] |= {"seconds.x": None, "diagnostics.local_model.on_test.accuracy": None}
    write_lines(folder, lines)
    for use in USES:
        use(folder)


def spoil(text: str, rng: random.Random) -> str:
    """Damage a line as a disk, an editor or another program does."""
    at = rng.randrange(len(text))
    kept = json.loads(text)
    del kept[rng.choice(list(kept))]
    return rng.choice(
        [
            text[:at],
            text[:at] + chr(rng.randrange(1, 0x250)) + text[at + 1 :],
            text[at:] + text[:at],
            json.dumps(kept),
            rng.choice(["", "null", "[]", "3", '"x"', "[" * 5000, '{"kind": []}', "9" * 5000]),
        ]
    )


def test_a_damaged_first_line_is_met_with_a_sentence_when_a_run_is_resumed(folder: Path) -> None:
    first, *others = (folder / FILE).read_text().splitlines()
    rng, refused = random.Random(0), 0
    for _ in range(60):
        (folder / FILE).write_text("\n".join([spoil(first, rng), *others, ""]))
        try:
            resume(folder)
        except FedmirageError as error:
            refused += bool(str(error))
    assert refused > 40


def test_a_line_in_the_middle_that_is_not_json_is_damage(folder: Path) -> None:
    lines = (folder / FILE).read_text().splitlines()
    (folder / FILE).write_text("\n".join([*lines[:3], '{"kind": "rou', *lines[4:], ""]))
    with pytest.raises(DataError, match="is damaged: line 4 is not JSON"):
        read_results(folder / FILE)
    (folder / FILE).write_text("\n".join([*lines[:3], '{"kind": "rou']))
    assert len(read_results(folder / FILE)) == 3
