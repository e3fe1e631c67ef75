"""What a comparison suggests: one command that works, and a reason that its numbers support."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from fedmirage.cli import app
from fedmirage.comparison.advice import advise
from fedmirage.comparison.outcome import read_outcome
from tests.support import comparison
from tests.support.comparison import plan_records, write_records


def suggest(folder: Path, seeds: str = "0,1,2") -> str:
    """Write the records, and check that the suggested command is one."""
    write_records(plan_records(folder, seeds))
    text = advise(read_outcome(folder))
    _, name, *words = shlex.split(re.sub(r" \([^()]*\)$", "", text))
    typer.main.get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]
    return text


def test_one_seed_needs_more(tmp_path: Path) -> None:
    text = suggest(tmp_path, "1")
    assert "--seeds 1,0,2 " in text
    assert f"--out {tmp_path}" in text
    assert text.endswith("(one seed has no interval)")


@pytest.mark.parametrize(
    ("placebo", "said"),
    [
        ((0.50, 0.54, 0.51), "it is ahead of FedAvg and of its placebo)"),
        ((0.69, 0.62, 0.71), "fedcog leads its placebo, but that is undecided)"),
        ((0.75, 0.76, 0.77), "averages over rounds cost nothing)"),
    ],
)
def test_the_reason_is_what_the_intervals_allow(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    placebo: tuple[float, ...],
    said: str,
) -> None:
    monkeypatch.setitem(comparison.FINAL, "fedcog placebo", placebo)
    text = suggest(tmp_path)
    assert text.endswith(said)
    expected = {
        "it": "run --methods 'fedcog(start=2)' ",
        "fedcog": "--seeds 0,1,2,3,4,5 ",
        "averages": "run --methods 'fedavgm(momentum=0.5), swa(length=2)' ",
    }
    assert expected[said.split()[0]] in text


def test_failed_runs_come_first(tmp_path: Path) -> None:
    plan = plan_records(tmp_path)
    write_records(plan, {plan.runs({})[0].folder: "the disk is full"})
    assert advise(read_outcome(tmp_path)).endswith("(it goes on with what failed: 1 run)")
