"""Model cards: what is known is there, what is not is called unknown."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.common.errors import FedmirageError
from fedmirage.common.models.files import read_facts
from fedmirage.trained.card import find_model, write_card
from fedmirage.trained.evaluation import evaluate
from fedmirage.trained.labelled import load_labelled
from tests.support.inprocess import run_in_process
from tests.support.runs import lines
from tests.support.trained import QUICK


def card(path: Path) -> str:
    return write_card(path, read_facts(path))


def test_a_card_tells_data_methods_rounds_and_recorded_scores(digits: Path) -> None:
    text = card(digits)
    accuracy = lines(digits.parent)[-1]["accuracy"]
    for part in (
        "# Model card: fedavg on mlp(hidden=16)",
        "into 10 classes: 0, 1, 2",
        "`digits(size=8)`, divided by",
        "in the last round 2 trained on 1,438 samples",
        "(https://arxiv.org/abs/1602.05629)",
        "- Rounds: 2 of 2",
        "the server saw the update of each client",
        f"| accuracy | {accuracy:.3f} |",
        "- Worst class:",
    ):
        assert part in text, part
    assert "unknown" not in text


def test_scores_of_an_evaluation_come_with_intervals(digits: Path) -> None:
    model = fedmirage.load_model(digits)
    found = evaluate(model, load_labelled(model.facts, "digits"), 20)
    text, told = write_card(digits, model.facts, found), found["scores"]["auc"]
    assert f"| ROC area | {told['value']:.3f} | {told['low']:.3f} to {told['high']:.3f} |" in text
    assert "On 359 samples" in text


def test_privacy_is_told_with_the_epsilon_that_was_spent(tmp_path: Path) -> None:
    dp = "central(clip=1.0, noise=1.5)"
    run_in_process(tmp_path, **QUICK, dataset="digits(size=8)", dp=dp, weighting="uniform")
    spent = lines(tmp_path)[-1]["dp"]
    text = card(tmp_path / "model.safetensors")
    assert f"epsilon {spent['epsilon']:.3g} at delta {spent['delta']:.3g}" in text


def test_a_shared_part_points_to_the_personal_models(tmp_path: Path) -> None:
    run_in_process(tmp_path, **QUICK, dataset="digits(size=8)", methods="fedper")
    text = card(tmp_path / "model.safetensors")
    assert "fedmirage personal RUN --shared model.safetensors" in text
    assert "None are known" in text


def test_what_the_file_alone_does_not_say_is_unknown(digits: Path, tmp_path: Path) -> None:
    """Results of another run beside it are not its own."""
    alone = shutil.copy(digits, tmp_path / "one.safetensors")
    assert card(alone).count("unknown") == 3
    run_in_process(tmp_path, **QUICK, dataset="digits(size=8)", methods="fedprox(mu=0.1)")
    assert card(alone).count("unknown") == 3
    assert "unknown" not in card(tmp_path / "model.safetensors")


def test_the_command_writes_a_file_whole_or_says_what_is_missing(
    digits: Path, tmp_path: Path
) -> None:
    runner, out = CliRunner(env={"COLUMNS": "200"}), tmp_path / "deep" / "card.md"
    typed = ["card", str(digits.parent), "--dataset", "digits", "--resamples", "5"]
    shown = runner.invoke(app, [*typed, "--out", str(out)])
    assert shown.output == f"card: {out}\n"
    assert "| accuracy |" in out.read_text()
    assert runner.invoke(app, ["card", str(digits)]).output.startswith("# Model card")
    with pytest.raises(FedmirageError, match="name a model file, or the folder of a run"):
        find_model(tmp_path)
