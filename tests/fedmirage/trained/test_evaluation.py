"""Evaluation: the scores of the run, intervals that are right, groups, and data that do not fit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import fedmirage
from fedmirage.cli import app
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.learning.detail import Detail
from fedmirage.common.learning.task import TASKS
from fedmirage.common.learning.task import evaluate as score
from fedmirage.common.models.files import ModelFacts
from fedmirage.trained.evaluation import evaluate
from fedmirage.trained.labelled import load_labelled
from fedmirage.trained.model import BATCH
from fedmirage.trained.resampling import collect_outcomes, compute_intervals, compute_scores
from tests.support.inprocess import run_in_process
from tests.support.runs import lines
from tests.support.trained import QUICK, save_pictures


def judge(file: Path, line: str, **options: Any) -> dict[str, Any]:
    model = fedmirage.load_model(file)
    resamples = options.pop("resamples", 0)
    return evaluate(model, load_labelled(model.facts, line, **options), resamples)


def values(found: dict[str, Any]) -> dict[str, float]:
    return {name: told["value"] for name, told in found["scores"].items()}


def test_the_scores_are_those_of_the_run(digits: Path) -> None:
    found, (summary,) = judge(digits, "digits"), lines(digits.parent, "summary")
    detail, last = summary["final_evaluation"], lines(digits.parent)[-1]
    told = values(found)
    assert told["accuracy"] == pytest.approx(last["accuracy"], abs=1e-6)
    assert told["loss"] == pytest.approx(last["loss"], abs=1e-5)
    for name in ("balanced_accuracy", "macro_f1", "auc"):
        assert told[name] == pytest.approx(detail[name], abs=1e-6)
    assert found["confusion"] == detail["confusion"]
    assert [one["recall"]["value"] for one in found["classes"]] == detail["recall"]
    assert found["dataset"] == "digits(size=8, channels=1)"


def test_several_labels_per_sample_get_the_scores_of_the_run(tmp_path: Path) -> None:
    line = "digits-multi(train=200, test=60, size=14)"
    run_in_process(tmp_path, **QUICK, dataset=line)
    found = judge(tmp_path / "model.safetensors", line, resamples=20)
    (last,) = lines(tmp_path)[-1:]
    told = values(found)
    assert told["accuracy"] == pytest.approx(last["accuracy"], abs=1e-6)
    assert told["macro_f1"] == pytest.approx(last["evaluation"]["C-F1"], abs=1e-6)
    assert told["auc"] == pytest.approx(last["evaluation"]["auc"], abs=1e-6)
    assert "confusion" not in found
    assert "balanced_accuracy" not in told
    assert sum(one["count"] for one in found["calibration"]) == 60 * 10


def test_what_does_not_fit_into_memory_is_normalised_batch_by_batch(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    whole = ModelFacts.normalise

    def normalise(facts: ModelFacts, images: torch.Tensor) -> torch.Tensor:
        seen.append(len(images))
        return whole(facts, images)

    monkeypatch.setattr(ModelFacts, "normalise", normalise)
    judge(digits, "digits", split="all")
    assert len(seen) > 1
    assert max(seen) == BATCH


@pytest.mark.parametrize("classes", [2, 3])
def test_resamples_are_scored_like_samples_that_stand_there_twice(classes: int) -> None:
    """A sample that is drawn n times counts as n samples, also where scores tie."""
    generator = torch.Generator().manual_seed(classes)
    logits = torch.randint(-2, 3, (40, classes), generator=generator).double()
    labels = torch.randint(0, classes, (40,), generator=generator)
    drawn = torch.randint(0, 4, (40,), generator=generator)
    outcomes = collect_outcomes(logits, logits.softmax(1), labels, {})
    found = compute_scores(outcomes, drawn.double().numpy()[None])
    repeated = torch.repeat_interleave(torch.arange(40), drawn)
    chosen, truth = logits[repeated], labels[repeated]
    detail = Detail([*map(str, range(classes))], "single-label")
    wanted = score(torch.nn.Identity(), [(chosen, truth)], TASKS["single-label"], None, detail)
    wanted |= detail.result()
    for name in ("accuracy", "loss", "balanced_accuracy", "macro_f1", "auc"):
        assert found[name][0] == pytest.approx(wanted[name]), name
    chances = chosen.softmax(1)
    given = chances[:, 1] if classes == 2 else chances
    assert wanted["auc"] == pytest.approx(roc_auc_score(truth, given, multi_class="ovr"))


def test_calibration_by_hand() -> None:
    """Two samples say 0.9, one of them is right; two say 0.6, both are right: the gaps are 0.4 and
    0.4, each of half of the samples, so the error is 0.4."""
    chances = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]], dtype=torch.double)
    outcomes = collect_outcomes(chances.log(), chances, torch.tensor([0, 1, 0, 1]), {})
    (error,) = compute_scores(outcomes, np.ones((1, 4)))["ece"]
    assert error == pytest.approx(0.4)


def test_intervals_have_the_width_of_the_binomial_and_one_seed_gives_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(400, 2, generator=generator).double()
    labels = torch.randint(0, 2, (400,), generator=generator)
    outcomes = collect_outcomes(logits, logits.softmax(1), labels, {})
    ends = compute_intervals(outcomes, 1000, 0)
    share = float(outcomes.right.mean())
    width = 2 * 1.96 * np.sqrt(share * (1 - share) / 400)
    assert ends["accuracy"][1] - ends["accuracy"][0] == pytest.approx(width, rel=0.1)
    assert ends["accuracy"][0] < share < ends["accuracy"][1]
    again, other = (compute_intervals(outcomes, 1000, seed) for seed in (0, 1))
    assert all(np.array_equal(ends[name], again[name], equal_nan=True) for name in ends)
    assert not np.array_equal(ends["auc"], other["auc"])


def test_domains_and_named_columns_are_told_apart(tmp_path: Path) -> None:
    images = np.zeros((60, 6, 6), np.uint8)
    labels = np.arange(60) % 2
    images[labels == 1] = 220
    site = np.repeat([10, 20, 30], 20)
    images[site == 30] = 120  # of the third site, nothing can be told
    columns = {"train_site": site, "train_town": np.repeat(["Ulm", "Rom"], 30)}
    np.savez(tmp_path / "own.npz", images=images, labels=labels, **columns)
    line = f"npz(path='{tmp_path}/own.npz', columns=('site', 'town'), test_share=0.0)"
    run_in_process(tmp_path / "run", **QUICK, dataset=line.replace("0.0", "0.5"))
    found = judge(tmp_path / "run" / "model.safetensors", line, split="all", resamples=50)
    sites = {one["name"]: one for one in found["groups"]["site"]}
    assert [sites[name]["samples"] for name in ("10", "20", "30")] == [20, 20, 20]
    towns = {one["name"]: one["accuracy"]["value"] for one in found["groups"]["town"]}
    assert towns == {"Rom": pytest.approx(2 / 3, abs=1e-6), "Ulm": 1.0}
    assert sites["10"]["accuracy"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert sites["30"]["accuracy"]["value"] == 0.5
    assert 0 < sites["30"]["accuracy"]["low"] < 0.5 < sites["30"]["accuracy"]["high"] < 1


def test_folders_are_matched_with_the_model_by_name(tmp_path: Path) -> None:
    """Some of the classes in other data, in another order, without size=: still the same classes;
    a class that the model does not know is refused."""
    shades = {"ant": 20, "bee": 120, "cat": 240}
    for name, shade in shades.items():
        for number in range(12):
            path = tmp_path / "site" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (9, 9), shade + number % 3).save(path)
    line = f"imagefolder(path='{tmp_path}/site', size=6, channels=1)"
    run_in_process(tmp_path / "run", **{**QUICK, "rounds": 6}, dataset=line)
    file = tmp_path / "run" / "model.safetensors"
    for name in ("cat", "bee"):
        save_pictures(tmp_path / "new" / name, [np.full((1, 20, 30), shades[name], np.uint8)], "x")
    found = judge(file, f"imagefolder(path='{tmp_path}/new')", split="all")
    assert [one["samples"] for one in found["classes"]] == [0, 1, 1]
    assert values(found)["accuracy"] == 1
    assert found["classes"][0]["recall"]["value"] is None
    save_pictures(tmp_path / "new" / "dog", [np.zeros((1, 9, 9), np.uint8)], "x")
    with pytest.raises(FedmirageError, match="folder 'dog' is none of the classes ant, bee, cat"):
        judge(file, f"imagefolder(path='{tmp_path}/new')")
    np.savez(
        tmp_path / "named.npz",
        images=np.zeros((2, 6, 6), np.uint8),
        labels=[0, 1],
        class_names=["cat", "dog"],
    )
    with pytest.raises(FedmirageError, match="has the classes 'dog', which the model does not"):
        judge(file, f"npz(path='{tmp_path}/named.npz')")


def test_data_that_do_not_fit_are_refused_with_all_reasons(digits: Path) -> None:
    for line, sentence in {
        "digits(size=9)": r"have the shape 1x9x9, and the model takes pictures of 1x8x8",
        "wine": r"(?s)have the shape 13.*has 3 classes, and the model 10",
        "digits-multi(train=20, test=10)": "is multi-label, and the model single-label",
    }.items():
        with pytest.raises(FedmirageError, match=sentence):
            judge(digits, line)
    with pytest.raises(FedmirageError, match="split='some': write one of test, train, all"):
        judge(digits, "digits", split="some")


def test_the_encoder_must_be_that_of_the_run(tmp_path: Path) -> None:
    line = "embeddings(of='digits(size=8)', encoder='tests.support.encoders:shrink')"
    run_in_process(tmp_path, **QUICK, dataset=line)
    file = tmp_path / "model.safetensors"
    told = values(judge(file, line))
    assert told["accuracy"] == pytest.approx(lines(tmp_path)[-1]["accuracy"], abs=1e-6)
    with pytest.raises(FedmirageError, match="this line uses none; use the encoder of the run"):
        judge(file, "digits")


def test_the_command_prints_tables_or_json_and_draws(digits: Path, tmp_path: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    typed = ["evaluate", str(digits), "--dataset", "digits", "--resamples", "30"]
    picture = tmp_path / "deep" / "reliability.png"
    shown = runner.invoke(app, [*typed, "--picture", str(picture)])
    assert shown.exit_code == 0, shown.output
    for text in (
        "balanced accuracy",
        "ROC area",
        "true \\ answer",
        "359 samples: the test split of",
    ):
        assert text in shown.output
    with Image.open(picture) as drawn:
        assert len(drawn.convert("RGB").getcolors(10**6) or ()) > 10
    found = json.loads(runner.invoke(app, [*typed, "--json"]).stdout)
    assert found["scores"] == judge(digits, "digits", resamples=30)["scores"]
    assert load("digits").test.images.shape[0] == found["samples"]
