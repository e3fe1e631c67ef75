"""Comparisons by other scores than the accuracy, of runs that have them and of others."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.wire.metrics import AVERAGE_SCORES
from fedmirage.comparison.advice import advise, repeat_comparison
from fedmirage.comparison.export import describe_outcome, latex_table, list_runs
from fedmirage.comparison.outcome import read_outcome
from fedmirage.comparison.rows import SCORES, SITES, Question, make_question
from fedmirage.comparison.scores import score_of
from fedmirage.comparison.table import remarks, show_outcome
from fedmirage.report.data import gather
from fedmirage.report.groups import find_groups
from fedmirage.report.sections.answer import accuracy_table, scores_table
from tests.support.comparison import plan_records, read_lines, write_lines, write_records

NARROW = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})


def add_scores(folder: Path) -> None:
    """Let every run have a balanced accuracy 10 points, and an area 20 points above accuracy."""
    for file in sorted(folder.glob("*/results.jsonl")):
        lines = read_lines(file.parent)
        for line in (line for line in lines if line["kind"] == "round"):
            average = line["evaluation"].get(f"{AVERAGE_SCORES}accuracy")
            prefix, accuracy = (
                ("", line["accuracy"]) if average is None else (AVERAGE_SCORES, average)
            )
            line["evaluation"][f"{prefix}balanced_accuracy"] = accuracy + 0.1
            line["evaluation"][f"{prefix}auc"] = accuracy + 0.2
        write_lines(file.parent, lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A comparison by accuracy, whose runs have two further scores."""
    write_records(plan_records(tmp_path, target=0.59))
    add_scores(tmp_path)
    return tmp_path


def shown(folder: Path, score: str | None = None) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(show_outcome(read_outcome(folder, score)))
    text = str(console.file.getvalue())  # type: ignore[attr-defined]
    assert all(len(row) <= 80 for row in text.splitlines())
    return text


def test_names_of_scores() -> None:
    assert list(SCORES) == ["global", "local", "balanced-accuracy", "macro-f1", "auc", *SITES]
    problems: list[str] = []
    make_question("", "fedavg", "acu", problems)
    assert problems == [
        "score='acu' is not known; write global, local, balanced-accuracy, macro-f1, auc, sites or"
        " each-site"
    ]


def test_the_default_table_does_not_change(folder: Path) -> None:
    text = shown(folder)
    assert text.splitlines()[0].startswith("Accuracy in %, 3 seeds; differences of the last five")
    assert "area under" not in text.lower()
    assert "Until 59.00 % are reached" in text


def test_another_score_decides_table_order_and_costs(folder: Path) -> None:
    """All areas lie 20 points above the accuracies, so differences stay; the target, which is an
    accuracy, does not apply."""
    text = shown(folder, "auc")
    assert text.splitlines()[0].startswith("Area under the ROC curve in %, 3 seeds")
    fedcog = next(row for row in text.splitlines() if row.startswith("fedcog"))
    assert fedcog.split()[1:6] == ["91.33", "±1.53", "89.33", "±1.53", "+10.33"]
    assert "Until 79.00 % are reached, FedAvg's mean of the last five" in " ".join(text.split())
    averaged = next(row for row in text.splitlines() if row.startswith("lg-fedavg"))
    assert "*" in averaged  # the average of local models stands in here too


def test_a_comparison_is_shown_again_by_another_score(folder: Path) -> None:
    files = [f"--json={folder / 'a.json'}", f"--picture={folder / 'a.png'}"]
    again = NARROW.invoke(app, ["compare", str(folder), "--score", "balanced-accuracy", *files])
    assert again.exit_code == 0, again.output
    assert "Balanced accuracy in %" in again.output
    assert (folder / "a.png").exists()
    content = json.loads((folder / "a.json").read_text())
    assert content["question"]["score"] == "balanced-accuracy"
    refused = NARROW.invoke(app, ["compare", str(folder), "--score", "acu"])
    assert isinstance(refused.exception, ConfigurationError)
    alone = NARROW.invoke(app, ["compare", str(folder / "fedavg-seed0"), "--score", "auc"])
    assert isinstance(alone.exception, ConfigurationError)
    assert alone.exception.problems == ["--score is for a whole comparison; give its folder alone"]


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ("auc", "it has no area under the ROC curve, because an earlier version made it"),
        ("macro-f1", "or because its samples have several labels each"),
        ("local", "which --local-evaluation records"),
    ],
)
def test_runs_without_the_score_get_a_sentence(tmp_path: Path, score: str, words: str) -> None:
    write_records(plan_records(tmp_path))
    with pytest.raises(DataError) as refused:
        read_outcome(tmp_path, score)
    assert words in str(refused.value)
    assert f"score={score!r}: no run in {tmp_path}" in str(refused.value)
    failed = NARROW.invoke(app, ["compare", str(tmp_path), "--score", score])
    assert isinstance(failed.exception, DataError)


def test_a_single_run_without_the_score_is_named(folder: Path) -> None:
    lines = read_lines(folder / "fedavg-seed1")
    for line in lines:
        line.get("evaluation", {}).pop("auc", None)
    write_lines(folder / "fedavg-seed1", lines)
    said = remarks(read_outcome(folder, "auc"))
    assert any(text.startswith("fedavg, seed 1, failed: it has no area under") for text in said)
    assert not any("seed 0" in text for text in said)


def test_a_comparison_by_another_score_keeps_it(tmp_path: Path) -> None:
    write_records(plan_records(tmp_path, question=Question(score="auc")))
    add_scores(tmp_path)
    outcome = read_outcome(tmp_path)
    assert outcome.question.metric == "auc"
    assert "--score auc" in repeat_comparison(outcome)
    assert advise(outcome).startswith("fedmirage run")
    page = gather([tmp_path])
    options = page["plots"]["group-1-curves"]["options"]
    assert [one["label"] for one in options] == [
        *("Area under the ROC curve", "Accuracy", "Loss", "Balanced accuracy"),
    ]
    assert [one["percent"] for one in options] == [True, True, False, True]
    text = json.dumps(page)
    assert "Differences of the mean area under the ROC curve of the last five" in text
    assert "All runs: area under the ROC curve on the test set" in text


def test_exports_have_all_scores_whichever_is_compared(folder: Path) -> None:
    for score in (None, "auc"):
        outcome = read_outcome(folder, score)
        first = list_runs(outcome)[0]
        found = {name: first[f"last5_{name}"] for name in ("accuracy", "balanced_accuracy", "auc")}
        assert found == pytest.approx({"accuracy": 0.58, "balanced_accuracy": 0.68, "auc": 0.78})
        assert first["last5_macro_f1"] is None
        row = describe_outcome(outcome)["rows"][0]
        assert row["scores"]["auc"]["final"]["mean"] == pytest.approx(0.81)
        assert row["scores"]["macro_f1"] == {"final": None, "last_five": None}
        assert row["final"] == row["scores"]["auc" if score else "accuracy"]["final"]
    assert latex_table(outcome).startswith("% Area under the ROC curve in per cent\n")


def test_the_page_has_a_table_of_all_scores(folder: Path) -> None:
    (group,) = find_groups([folder]).groups
    table = scores_table(group)
    heads = ("Accuracy", "Balanced accuracy", "Area under the ROC curve")
    assert all(f">{head}</th>" in table for head in heads)
    assert "Macro-F1</th>" not in table
    assert "79.00 ±1.00" in table
    assert "clients&#x27; own models have none" in table
    assert ">Area under" not in accuracy_table(group)


def test_a_page_of_old_runs_has_no_such_table(tmp_path: Path) -> None:
    write_records(plan_records(tmp_path))
    (group,) = find_groups([tmp_path]).groups
    assert scores_table(group) == ""


def test_python_has_all_scores(folder: Path) -> None:
    found = fedmirage.read_comparison(folder)
    assert found.scores.loc[("fedavg", "auc"), "last_five"] == pytest.approx(0.79)
    assert set(found.scores.index.get_level_values("score")) == {
        *("accuracy", "balanced_accuracy", "auc"),
    }
    other = fedmirage.read_comparison(folder, score="auc")
    assert other.table.loc["fedavg", "last_five"] == pytest.approx(0.79)
    assert other.rounds.loc[0, "auc"] == pytest.approx(other.rounds.loc[0, "accuracy"] + 0.2)
    assert other.plot().axes[0].get_title() == "area under the ROC curve on the test set"
    title = "difference of the mean area under the ROC curve of the last five rounds"
    assert other.plot_differences().axes[0].get_title() == title
    assert other._repr_html_().startswith("<p>Area under the ROC curve in %")


def test_scores_of_a_round() -> None:
    """A global model's own score comes first; local models have no area."""
    average = {f"{AVERAGE_SCORES}auc": 0.7}
    assert score_of({"accuracy": 0.5, "evaluation": {"auc": 0.9, **average}}, "auc") == 0.9
    assert score_of({"accuracy": None, "evaluation": average}, "auc") == 0.7
    assert score_of({"accuracy": 0.5, "evaluation": {"auc": 0.9}}, "auc", "local") is None
    assert score_of({"accuracy": 0.5}, "auc") is None
