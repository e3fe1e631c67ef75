"""Every line that runs write, and every recorded one, has the keys that the format declares."""

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import defaults
from fedmirage.common.wire.metrics import DIAGNOSTICS, MEANINGS
from fedmirage.server.record.format import LINES, Named
from fedmirage.server.record.results import read_results
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL

KINDS = {get_args(line.model_fields["kind"].annotation)[0]: line for line in LINES}
RECORDED = sorted((Path(__file__).parents[3] / "docs/results/runs").glob("*/results.jsonl"))


def validate(line: dict[str, Any]) -> None:
    """Check a line strictly; extra metrics must have names that the code explains."""
    known = KINDS[line["kind"]].model_validate(line, strict=True)
    for part in [known, *_parts(known)]:
        if isinstance(part, Named):
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
