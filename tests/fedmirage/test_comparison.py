"""A comparison from Python, in real processes, and what its object holds."""

import json
from pathlib import Path

import pytest

import fedmirage
from tests.support.runs import SMALL, lines

FEDCOG = "fedcog(start=2, samples=4, steps=1)"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> fedmirage.Comparison:
    out = tmp_path_factory.mktemp("comparison")
    settings = {**SMALL, "rounds": 2, "out": str(out)}
    return fedmirage.compare([FEDCOG], seeds=[0, 1], quiet=True, **settings)


def test_the_table_has_a_row_per_line_with_its_differences(found: fedmirage.Comparison) -> None:
    table = found.table
    placebo = table.loc[FEDCOG, "placebo"]
    assert list(table.index) == ["fedavg", FEDCOG, placebo]
    scores = {
        (name, seed): own["last5_accuracy"].item()
        for (name, seed), own in found.runs.groupby(["methods", "seed"])
    }
    for seed in (0, 1):  # two rounds make the "last five"
        rounds = lines(found.run("fedavg", seed).folder)
        assert scores["fedavg", seed] == pytest.approx(sum(one["accuracy"] for one in rounds) / 2)
    gained = [scores[FEDCOG, seed] - scores["fedavg", seed] for seed in (0, 1)]
    assert table.loc[FEDCOG, "to_baseline"] == pytest.approx(sum(gained) / 2)
    assert table["to_baseline"].isna().tolist() == [True, False, False]
    assert table["to_placebo"].isna().tolist() == [True, False, True]
    assert table.dtypes["to_placebo_margin"] == "float64"


def test_differences_have_intervals_and_verdicts(found: fedmirage.Comparison) -> None:
    rows = found.differences.set_index(["methods", "kind"])
    row = rows.loc[(FEDCOG, "to_placebo")]
    assert row["other"] == found.table.loc[FEDCOG, "placebo"]
    assert row["high"] - row["low"] == pytest.approx(2 * row["margin"])
    claims = rows[["p_different", "p_equivalent"]].min(axis="columns") <= 0.05
    assert (rows["verdict"] != "undecided").tolist() == claims.tolist()


def test_rounds_include_those_that_are_fedavgs(found: fedmirage.Comparison) -> None:
    rounds = found.rounds.set_index(["methods", "seed", "round"])
    assert rounds.shape[0] == 3 * 2 * 2
    assert rounds.loc[(FEDCOG, 1, 1), "accuracy"] == rounds.loc[("fedavg", 1, 1), "accuracy"]
    assert rounds["drift"].isna().all()
    assert rounds["drift"].dtype == "float64"
    # FedCOG's own folder has only the second round.
    assert list(found.run(FEDCOG, seed=1).rounds.index) == [2]


def test_a_notebook_shows_table_and_sentences(found: fedmirage.Comparison) -> None:
    shown = found._repr_html_()
    assert "placebo of fedcog" in shown
    assert all(sentence in shown for sentence in found.sentences)
    assert found.sentences[0].startswith("Over 2 seeds, ")


def test_pictures_show_every_line_and_every_difference(found: fedmirage.Comparison) -> None:
    (axes,) = found.plot().axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["fedavg", "fedcog", "placebo of fedcog"]
    means = found.rounds.groupby(["methods", "round"])["accuracy"].mean()
    assert list(axes.get_lines()[1].get_ydata()) == pytest.approx(list(means[FEDCOG]))
    (axes,) = found.plot_differences().axes
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert shown == ["fedcog", "placebo of fedcog"]
    assert found.page().name == "report.html"


def test_the_folder_can_be_opened_again_and_says_what_failed(found: fedmirage.Comparison) -> None:
    path = found.folder / "comparison.json"
    before = path.read_text()
    failed = {Path(found.run("fedavg", 1).folder).name: "it was unlucky"}
    path.write_text(json.dumps({**json.loads(before), "failed": failed}))
    again = fedmirage.read_comparison(found.folder)
    path.write_text(before)
    assert "fedavg, seed 1, failed: it was unlucky" in again.remarks
    assert "it was unlucky" in again._repr_html_()
    assert again.table.loc["fedavg", "seeds"] == 1
    with pytest.raises(fedmirage.FedmirageError, match="no run of 'fedcog' with seed 7"):
        again.run("fedcog", seed=7)


def test_fedavg_alone_has_no_differences(found: fedmirage.Comparison, tmp_path: Path) -> None:
    content = json.loads((found.folder / "comparison.json").read_text())
    rows = [{**content["rows"][0], "runs": {"0": str(found.folder / "fedavg-seed0")}}]
    text = json.dumps({**content, "rows": rows, "seeds": [0]})
    (tmp_path / "comparison.json").write_text(text)
    alone = fedmirage.read_comparison(tmp_path)
    assert alone.differences.empty
    assert "other" in alone.differences
    assert "nothing is claimed" in alone._repr_html_()
