"""The numbers of the page are those of the comparison, and of the records."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.settings.config import configure
from fedmirage.comparison.outcome import read_outcome
from fedmirage.comparison.rows import Question
from fedmirage.comparison.statistics import Difference, spread
from fedmirage.report.data import gather
from fedmirage.report.groups import find_groups
from fedmirage.report.sections.answer import useful_range
from fedmirage.server.record.folder import claim
from tests.support.comparison import (
    plan_records,
    read_lines,
    round_line,
    write_lines,
    write_records,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(plan_records(tmp_path))
    return tmp_path


def plot(folder: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = gather([folder])["plots"][f"group-1-{key}"]
    return found


def html(folder: Path, key: str) -> str:
    (group,) = gather([folder])["html"]["groups"]
    return str(next(one["html"] for one in group["sections"] if one["id"].endswith(key)))


def test_everything_is_plain_json(folder: Path) -> None:
    json.dumps(gather([folder]), allow_nan=False)


def test_curves_and_bands_are_means_and_deviations_over_seeds(folder: Path) -> None:
    """In round 7 FedCOG has 70, 73 and 71 per cent: mean 71.33, deviation 1.53."""
    option = plot(folder, "curves")["options"][0]
    line = next(line for line in option["lines"] if line["series"] == 1)
    summary = spread([0.70, 0.73, 0.71])
    assert summary is not None
    assert summary.deviation is not None
    assert line["mean"][-1] == pytest.approx(summary.mean, rel=1e-5)
    assert line["low"][-1] == pytest.approx(summary.mean - summary.deviation, rel=1e-5)
    assert line["high"][-1] == pytest.approx(summary.mean + summary.deviation, rel=1e-5)
    standing = read_outcome(folder).standings[1]
    assert standing.final is not None
    assert line["mean"][-1] == pytest.approx(standing.final.mean, rel=1e-5)
    assert "71.33 ±1.53" in html(folder, "answer")
    assert "71.33 ±1.53" in html(folder, "curves")


def test_curves_can_be_drawn_against_all_that_adds_up(folder: Path) -> None:
    """Five clients process 100 samples each per round, at 2 MB and 2 s."""
    line = plot(folder, "curves")["options"][0]["lines"][0]
    assert line["rounds"] == [1, 2, 3, 4, 5, 6, 7]
    assert line["samples"][-1] == 7 * 500
    assert line["bytes"][-1] == 7 * 2_000_000
    assert line["seconds"][-1] == 14
    assert line["seeds"] == [3] * 7


def test_one_seed_has_no_band(tmp_path: Path) -> None:
    write_records(plan_records(tmp_path, seeds="0"))
    line = plot(tmp_path, "curves")["options"][0]["lines"][0]
    assert set(line["low"]) == set(line["high"]) == {None}
    assert "nothing is claimed" in html(tmp_path, "answer")


def test_differences_are_those_of_the_comparison(folder: Path) -> None:
    outcome = read_outcome(folder)
    for option, compare in zip(
        plot(folder, "differences")["options"],
        (outcome.to_baseline, outcome.to_placebo),
        strict=True,
    ):
        for row in option["rows"]:
            found = compare(outcome.standings[row["series"]])
            assert found is not None
            assert (row["mean"], row["margin"]) == (found.mean, found.margin)
            assert row["verdict"] == found.verdict
    assert len(option["rows"]) == 2  # FedCOG and VHL have placebos
    assert "<td>undecided</td><td>4.30</td>" in html(folder, "answer")


def test_the_picture_is_sorted_and_its_axis_leaves_out_what_is_far_away() -> None:
    near = [Difference(mean, 0.01, 3) for mean in (0.01, 0.02, -0.03)]
    assert useful_range(near) == pytest.approx([-0.04, 0.03])
    assert useful_range([*near, Difference(-0.55, 0.01, 3)]) == pytest.approx([-0.04, 0.03])
    wide = useful_range([*near, Difference(0.01, 0.55, 3)])
    assert wide == pytest.approx([-2.5 * 0.03, 2.5 * 0.03])
    assert useful_range([Difference(0.0, None, 1)]) == [0, 0]


def test_differences_are_sorted_and_the_same_columns_left_out(folder: Path) -> None:
    (option, _) = plot(folder, "differences")["options"]
    means = [row["mean"] for row in option["rows"]]
    assert means == sorted(means, reverse=True)
    said = html(folder, "answer")
    assert "in every line: Runs 3 finished" in said
    assert ">Runs</th>" not in said
    assert said.index('class="answer"') < said.index("data-plot") < said.index(">Last five</th>")


def test_several_comparisons_have_their_answers_first(tmp_path: Path) -> None:
    write_records(plan_records(tmp_path / "one"))
    write_records(plan_records(tmp_path / "two", question=Question("Does it help?")))
    groups = gather([tmp_path])["html"]["groups"]
    assert [group["title"] for group in groups] == [
        "one",
        "Does it help?",
        "Behind it: one",
        "Behind it: Does it help?",
    ]
    assert [len(group["sections"]) for group in groups[:2]] == [1, 1]


def test_a_lead_is_said_only_where_the_test_shows_it(folder: Path) -> None:
    said = html(folder, "answer")
    assert "ahead of FedAvg: fedcog;" in said
    assert "Ahead of its placebo: vhl; undecided against its placebo: fedcog." in said
    answered = said[said.index(">Last five</th>") :]  # after the numbers of the picture
    row = answered[answered.index('<th scope="row">lg-fedavg</th>') :]
    assert "undecided" in row[: row.index("</tr>")]


def test_scores_of_the_average_of_local_models_stand_in_and_are_marked(folder: Path) -> None:
    lines = plot(folder, "curves")["options"][0]["lines"]
    assert next(line for line in lines if line["series"] == 5)["mean"][-1] == pytest.approx(
        1.51 / 3, rel=1e-5
    )
    assert "50.33 ±34.36*" in html(folder, "answer")


def test_classes_clients_confusion_drift_terms_and_phases(folder: Path) -> None:
    """Nine classes are recalled as often as the accuracy; the test set lacks the tenth."""
    classes = plot(folder, "classes")["options"][0]
    assert classes["x"] == [str(number) for number in range(9)]
    assert classes["z"][0][0] == pytest.approx(0.61)
    clients = plot(folder, "clients")["options"][0]
    assert clients["x"] == ["0", "1", "2", "3", "4"]
    assert clients["z"][0] == [0.2] * 5
    confusion = plot(folder, "confusion")["options"][0]
    assert (confusion["z"][3][3], confusion["z"][3][4]) == (0.9, 0.1)
    assert plot(folder, "drift")["options"][0]["lines"][0]["mean"] == [0.5] * 7
    assert [option["label"] for option in plot(folder, "terms")["options"]] == ["task", "alignment"]
    seconds, megabytes = plot(folder, "phases")["options"]
    totals = {part["name"]: part["values"][0] for part in seconds["parts"]}
    assert totals == {"clients": 7.0, "server": 3.5, "evaluation": 1.75, "rest": 1.75}
    assert [part["values"][0] for part in megabytes["parts"]] == [7.0, 7.0]


def test_who_holds_what_is_dealt_again(folder: Path) -> None:
    """Five clients of two classes each share the 1,438 training samples of the digits."""
    option = plot(folder, "holdings")["options"][0]
    assert option["label"] == "Seed 0"
    assert [sum(count > 0 for count in row) for row in option["z"]] == [2] * 5
    assert sum(map(sum, option["z"])) == 1438


def test_a_report_says_that_clients_share_samples(tmp_path: Path) -> None:
    """Also where the clients are too many for a table."""
    line = "draw(per_client=20)"
    told = f"Clients share samples: with {line} each draws its own from the whole set"
    for clients, shown in ((10, True), (5000, False)):
        folder = tmp_path / str(clients)
        folder.mkdir()
        write_records(plan_records(folder, partition=line, clients=clients))
        assert told in html(folder, "holdings")
        assert ("too many to show" not in html(folder, "holdings")) == shown


def test_data_that_are_not_at_hand_are_named(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    write_records(plan_records(tmp_path, dataset="cifar10", **{"data-dir": nowhere}))
    assert "the data are not at hand here" in html(tmp_path, "holdings")


def test_clients_with_data_of_their_own_are_not_dealt_any(folder: Path) -> None:
    run = folder / "fedavg-seed0"
    lines = read_lines(run)
    lines[1]["clients"][0]["examples"] = 100_000
    write_lines(run, lines)
    assert "clients reported other data than were split" in html(folder, "holdings")


def test_domains_and_the_budget_have_sections_where_there_are_any(folder: Path) -> None:
    assert {"group-1-domains", "group-1-budget"}.isdisjoint(gather([folder])["plots"])
    run = folder / "fedavg-seed0"
    lines = read_lines(run)
    for line in lines[1:-1]:
        line["evaluation"]["domains"] = {"mnist": 0.5, "usps": 0.7}
        line["dp"] = {"epsilon": line["round"] / 2, "delta": 1e-5, "clipped": 0.25}
    write_lines(run, lines)
    assert plot(folder, "domains")["options"][0]["z"] == [[0.5, 0.7]]
    assert plot(folder, "budget")["options"][0]["lines"][0]["mean"][-1] == 3.5
    assert "epsilon 3.5 at delta 1e-05" in html(folder, "budget")
    assert "25.0 %" in html(folder, "budget")


def test_failed_damaged_and_unfinished_runs_are_named_and_the_others_stay(tmp_path: Path) -> None:
    plan = plan_records(tmp_path)
    _, fedcog, placebo, vhl = plan.runs({})[:4]
    write_records(plan, {fedcog.folder: "the disk is full"})
    (placebo.folder / "results.jsonl").write_bytes(b"\xff\xfe\n")
    write_lines(vhl.folder, read_lines(vhl.folder)[:4])
    said = html(tmp_path, "runs")
    assert "failed: the disk is full" in said
    assert "damaged: " in said
    assert "unfinished" in said
    assert "1 failed, 2 finished" in html(tmp_path, "answer")
    line = plot(tmp_path, "curves")["options"][0]["lines"][2]
    assert line["seeds"] == [2] * 7  # two seeds of the placebo are left


def test_a_run_whose_folder_is_claimed_is_under_way(tmp_path: Path) -> None:
    config = {"kind": "config", **configure({"rounds": 7, "out": str(tmp_path)}).flat()}
    write_lines(tmp_path, [config, round_line(1, 0.6), round_line(2, 0.6)])
    with claim(tmp_path):
        data = gather([tmp_path])
        (group,) = find_groups([tmp_path]).groups
    assert data["going"]
    assert group.all_runs[0].status == "running"
    assert group.outcome.standings[0].failed == {}
    assert not gather([tmp_path])["going"]


def test_loose_runs_are_compared_only_where_their_settings_allow_it(tmp_path: Path) -> None:
    """Without comparison.json the answer is the same; a run of other rounds is another group."""
    write_records(plan_records(tmp_path / "one"))
    recorded = re.findall("<tr.*?</tr>", html(tmp_path / "one", "answer"))
    (tmp_path / "one" / "comparison.json").unlink()
    loose = re.findall("<tr.*?</tr>", html(tmp_path / "one", "answer"))
    assert sorted(loose) == sorted(recorded)  # without a record, rows have the order of folders
    other = {"kind": "config", **configure({"rounds": 6}).flat()}
    write_lines(tmp_path / "two", [other, round_line(1, 0.6)])
    found = find_groups([tmp_path / "one", tmp_path / "two"])
    assert [len(group.runs) for group in found.groups] == [6, 1]


def test_the_same_settings_twice_are_two_rows(tmp_path: Path) -> None:
    for name in ("first", "again"):
        config = {"kind": "config", **configure({"rounds": 7}).flat()}
        write_lines(tmp_path / name, [config, round_line(1, 0.6)])
    (group,) = find_groups([tmp_path / "first", tmp_path / "again"]).groups
    assert list(group.runs) == ["fedavg", "fedavg in again"]


def test_a_folder_without_results_is_no_failure_for_a_live_page(tmp_path: Path) -> None:
    data = gather([tmp_path, tmp_path / "later"])
    assert data["html"]["groups"] == []
    assert f"There are no results in {tmp_path / 'later'} yet." in data["html"]["problems"]


def test_a_damaged_comparison_is_named_and_its_runs_are_shown(folder: Path) -> None:
    (folder / "comparison.json").write_text("{")
    found = find_groups([folder])
    assert len(found.groups) == 1
    assert "comparison.json is damaged" in found.damaged[0]


def test_a_comparison_whose_settings_are_refused_is_named(folder: Path) -> None:
    path = folder / "comparison.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "settings": {"rounds": 0, "gone": 1}}))
    found = find_groups([folder])
    assert len(found.groups) == 1
    assert f"{path} has settings that this version refuses: " in found.damaged[0]
    assert "gone" in found.damaged[0]


def test_every_run_is_shown_once_and_none_replaces_another(tmp_path: Path) -> None:
    """Three copies of a comparison's runs have the same settings and the same names of folders."""
    first, *others = copies = [tmp_path / name for name in ("first", "second", "third")]
    write_records(plan_records(first, "0"))
    (first / "comparison.json").unlink()
    for copy in others:
        shutil.copytree(first, copy)
    (group,) = find_groups([*copies, first / "fedavg-seed0"]).groups
    shown = sorted(run.folder for run in group.all_runs)
    assert shown == sorted(path.parent for path in tmp_path.glob("*/*/results.jsonl"))
    assert "fedavg in third/fedavg-seed0" in group.runs


def test_tables_of_many_columns_have_some_of_them_and_say_so(folder: Path) -> None:
    run = folder / "fedavg-seed0"
    lines = read_lines(run)
    score = "diagnostics.local_model.on_test.accuracy"
    lines[1]["clients"] = [{"partition": number, score: 0.5} for number in range(300)]
    write_lines(run, lines)
    assert len(plot(folder, "clients")["options"][0]["x"]) == 300
    table = html(folder, "clients")
    assert "columns: client, some of them" in table
    assert table.count('scope="col"') == 1 + 40
    assert ">299</th>" in table


def test_rounds_that_were_taken_over_count_in_every_table(folder: Path) -> None:
    """FedCOG's run of seed 0 begins warm after FedAvg's round 5 (58 %) and has 69 and 70 % of its
    own: with 56, 57 and 58 % before them, the last five are 62 %, and seven rounds sent 7 MB."""
    run = folder / "fedcog-start-2-seed0"
    first, *rounds, summary = read_lines(run)
    first["warm-start"] = f"{folder / 'fedavg-seed0'}@5"
    write_lines(run, [first, *rounds[5:], summary])
    assert read_outcome(folder).standings[1].scores[0].last_five == pytest.approx(0.62)
    caption, *rows = html(folder, "runs").split("<tr")
    assert "<td>70.00</td><td>70.00</td><td>62.00</td>" in rows[4]
    assert "Rounds 7 of 7, MB up 7.0, MB down 7.0" in caption


def test_other_rates_and_schedules_are_rows_of_their_own(tmp_path: Path) -> None:
    chosen: list[dict[str, Any]] = [{}, {"seed": 1}, {"lr": 0.1}, {"schedule": "cosine"}]
    for number, settings in enumerate(chosen):
        config = {"kind": "config", **configure({"rounds": 7, **settings}).flat()}
        write_lines(tmp_path / str(number), [config, round_line(1, 0.6)])
    (group,) = find_groups([tmp_path]).groups
    assert list(group.runs) == ["fedavg", "fedavg with lr=0.1", "fedavg with cosine"]
    assert sorted(group.runs["fedavg"]) == [0, 1]
