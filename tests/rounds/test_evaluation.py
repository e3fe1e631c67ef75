"""What a round's line and the summary report beside the accuracy."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from sklearn.metrics import recall_score

from fedmirage.common.data.batches import normalise
from fedmirage.common.data.loading import load
from fedmirage.common.run import blueprint
from fedmirage.common.wire.manifest import from_arrays
from fedmirage.common.wire.metrics import AVERAGE_SCORES, FURTHER_SCORES
from fedmirage.comparison.folders import lay_out_runs
from fedmirage.show.progress import summary_table
from tests.support.inprocess import run_in_process
from tests.support.rules import last_local_models
from tests.support.runs import SMALL, lines
from tests.support.vhl import BASE


def test_scores_beside_the_accuracy_and_at_the_end_the_confusion_matrix(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    rounds, (summary,) = lines(tmp_path), lines(tmp_path, "summary")
    final = summary["final_evaluation"]
    confusion = np.array(final["confusion"])
    assert confusion.shape == (10, 10)
    assert np.trace(confusion) / confusion.sum() == pytest.approx(summary["final_accuracy"])
    recall = np.diagonal(confusion) / confusion.sum(1)
    assert final["recall"] == pytest.approx(recall.tolist(), abs=1e-6)
    assert final["worst_recall"] == recall.min()
    assert final["worst_class"] == str(recall.argmin())
    assert final["balanced_accuracy"] == pytest.approx(recall.mean())
    for line in rounds:
        names = {"recall", "worst_recall", "worst_class", *FURTHER_SCORES}
        assert names == set(line["evaluation"])
        assert len(json.dumps(line["evaluation"])) < 400
    cells = [list(column.cells) for column in summary_table(summary).columns]
    shown = dict(zip(map(str, cells[0]), map(str, cells[1]), strict=True))
    assert shown["macro-F1"] == f"{100 * final['macro_f1']:.2f} %"
    assert shown["balanced accuracy"] == f"{100 * final['balanced_accuracy']:.2f} %"
    assert shown["area under the ROC curve"] == f"{100 * final['auc']:.2f} %"
    assert shown["worst class"].startswith(f"{final['worst_class']}, recall")


def test_several_labels_have_recall_by_class(tmp_path: Path) -> None:
    settings = {**SMALL, "dataset": "digits-multi(train=60, test=40)", "partition": "iid"}
    run_in_process(tmp_path, **settings)
    final = lines(tmp_path, "summary")[0]["final_evaluation"]
    assert np.mean(final["recall"]) == pytest.approx(final["C-R"], abs=1e-5)
    assert "confusion" not in final


def test_dynafeds_other_scores_are_single_numbers(tmp_path: Path) -> None:
    small = "length=2, iterations=2, steps=2, segment=1, per_class=1, epochs=1, max_loss=10.0"
    methods = f"dynafed({small}, min_participants=1)"
    run_in_process(tmp_path, **{**BASE, "rounds": 3}, methods=methods)
    evaluation = lines(tmp_path)[-1]["evaluation"]
    assert "dynafed.average.macro_f1" in evaluation
    prefixed = {name: value for name, value in evaluation.items() if name.startswith("dynafed")}
    assert all(isinstance(value, float) for value in prefixed.values())


def test_every_domain_has_its_accuracy(tmp_path: Path) -> None:
    settings = {**SMALL, "dataset": "digits(limit=300, mean=0.3), digits(limit=200, mean=0.3)"}
    run_in_process(tmp_path / "same", **settings)
    evaluation = lines(tmp_path / "same")[-1]["evaluation"]
    names = ["digits(limit=300, mean=0.3)", "digits(limit=200, mean=0.3)"]
    assert list(evaluation["domains"]) == names
    accuracies = list(evaluation["domains"].values())
    # both have 200 test samples
    assert np.mean(accuracies) == pytest.approx(lines(tmp_path / "same")[-1]["accuracy"])
    cells = list(summary_table(lines(tmp_path / "same", "summary")[0]).columns[0].cells)
    assert f"accuracy on {names[0]}" in cells
    assert "mean over domains" in cells
    run_in_process(tmp_path / "one", **{**SMALL, "rounds": 1})
    assert "domains" not in lines(tmp_path / "one")[-1]["evaluation"]


def test_a_small_domain_counts_as_much_as_a_large_one(tmp_path: Path) -> None:
    """Accuracy weights domains by their test samples, the mean over domains does not. A round, the
    summary and the comparison of runs all have it."""
    few = load("digits-domains(limit=200)")
    names = list(few.domains)
    settings = {"dataset": "digits-domains(limit=200)", "model": "mlp(hidden=16)", "clients": 5}
    run_in_process(tmp_path, **{**SMALL, **settings}, partition="domains")
    evaluation = lines(tmp_path)[-1]["evaluation"]
    assert list(evaluation["domains"]) == names
    mean = np.mean(list(evaluation["domains"].values()))
    assert evaluation["accuracy_domain_mean"] == pytest.approx(mean)
    sizes = np.bincount(few.test.columns["domain"])
    pooled = np.average(list(evaluation["domains"].values()), weights=sizes)
    assert lines(tmp_path)[-1]["accuracy"] == pytest.approx(pooled)
    (summary,) = lines(tmp_path, "summary")
    assert summary["final_evaluation"]["domains"] == evaluation["domains"]
    assert summary["final_evaluation"]["accuracy_domain_mean"] == pytest.approx(mean)
    console = Console(width=80, file=io.StringIO())
    console.print(lay_out_runs([tmp_path]))
    text = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert f"mean over domains {100 * mean:.2f}: plain " in text
    assert all(name in text for name in names)


def test_clients_accuracies_and_how_far_they_lie_apart(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL, local_evaluation=True)
    for line in lines(tmp_path):
        single = [
            client["local_model.on_test_shard.by_examples.accuracy"] for client in line["clients"]
        ]
        start = "local_model.on_test_shard"
        found = [
            line["evaluation"][f"{start}.{name}.accuracy"] for name in ("worst", "best", "std")
        ]
        assert found == pytest.approx([min(single), max(single), np.std(single)])


def test_a_secure_run_tells_nothing_of_single_clients(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL, local_evaluation=True, secagg="on", methods="fedavg")
    evaluation = lines(tmp_path)[-1]["evaluation"]
    assert "local_model.on_test_shard.by_examples.accuracy" in evaluation
    assert not any(".worst." in name or ".std." in name for name in evaluation)


@pytest.mark.parametrize(
    "hidden",
    [{"secagg": "on"}, {"dp": "central(clip=1, noise=1)"}, {"dp": "local(clip=1, noise=1)"}],
)
def test_what_hides_local_models_also_hides_their_average(
    tmp_path: Path, hidden: dict[str, str]
) -> None:
    """All memories lie on this host, but secagg and dp promise that the server sees no model of a
    single client, so it does not read them."""
    run_in_process(tmp_path, **{**SMALL, "rounds": 1}, **hidden, methods="lg-fedavg")
    assert not any(name.startswith("average") for name in lines(tmp_path)[-1]["evaluation"])


def test_the_average_of_local_models_is_weighted_by_examples(tmp_path: Path) -> None:
    """G.acc by hand: sum_i n_i w_i / sum_i n_i of the whole local models, BatchNorm's running
    statistics included, scored on the whole test set."""
    config = run_in_process(
        tmp_path, **SMALL, methods="lg-fedavg", model="lenet-bn", partition="dirichlet(alpha=0.3)"
    )
    models, shares = last_local_models(tmp_path)
    mean = [
        sum(p * array for p, array in zip(shares, arrays, strict=True))
        for arrays in zip(*models, strict=True)
    ]
    dataset = load(config.dataset)
    model = blueprint(config, dataset.shape, len(dataset.classes)).eval()
    from_arrays(model, [array.astype(np.float32) for array in mean])
    pixels = torch.tensor(dataset.test.images)
    answers = model(normalise(pixels, dataset.mean, dataset.std)).argmax(1).numpy()
    found = lines(tmp_path)[-1]["evaluation"]
    assert len(set(shares)) > 1
    assert found["average_of_local_models.on_test.by_examples.accuracy"] == pytest.approx(
        (answers == dataset.test.labels).mean()
    )
    recall = recall_score(dataset.test.labels, answers, average="macro")
    assert found[f"{AVERAGE_SCORES}balanced_accuracy"] == pytest.approx(recall)
    assert {f"{AVERAGE_SCORES}{name}" for name in FURTHER_SCORES} < set(found)


@pytest.mark.parametrize("secagg", ["off", "on"])
def test_the_headline_of_a_widened_head_is_over_the_real_classes(
    tmp_path: Path, secagg: str
) -> None:
    """With a virtual set this strong the twenty outputs know no real class in the first round."""
    settings = {
        **BASE,
        "rounds": 1,
        "lr": 0.001,
        "local_evaluation": True,
        "secagg": secagg,
        "clients": 3,
    }
    run_in_process(
        tmp_path, **settings, methods="vhl(generator='gaussian', per_class=4, virtual_weight=20.0)"
    )
    (line,) = lines(tmp_path)
    evaluation = line["evaluation"]
    assert line["accuracy"] > evaluation["accuracy_all_outputs"]
    confusion = np.array(lines(tmp_path, "summary")[0]["final_evaluation"]["confusion"])
    assert confusion.shape == (10, 10)
    assert np.trace(confusion) / confusion.sum() == pytest.approx(line["accuracy"])
    start = "local_model.on_test_shard.by_examples"
    assert evaluation[f"{start}.accuracy"] >= evaluation[f"{start}.accuracy_all_outputs"]
