"""From records to the answer: scores, tables of 80 columns, sentences, and files to take away."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedmirage.cli import app
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.metrics import TEST_SHARD
from fedmirage.comparison.export import WRITERS, write_files
from fedmirage.comparison.outcome import allows_secagg, read_outcome, record
from fedmirage.comparison.plan import Job, Plan, make_plan
from fedmirage.comparison.rows import Choice, Question
from fedmirage.comparison.scores import choose, score_of
from fedmirage.comparison.statistics import paired_difference
from fedmirage.comparison.table import remarks, sentences, show_outcome
from tests.support.comparison import plan_records, write_records, write_run
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL


def text_of(plan: Plan) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(show_outcome(read_outcome(plan.folder)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(row) <= 80 for row in text.splitlines())
    return str(text)


def row_of(text: str, name: str) -> list[str]:
    found = [row for row in text.splitlines() if row.strip().startswith(name)]
    return found[0].strip().removeprefix(name).split()


def test_scores_differences_and_costs_by_hand(tmp_path: Path) -> None:
    """The last five of seven rounds lie 0, 1, 2, 3 and 4 per cent below the last one: 2 below it on
    average. FedCOG minus FedAvg is 10, 11 and 10: 10.33, deviation 0.577, margin 4.303 x 0.577 /
    sqrt 3 = 1.43. FedAvg reaches 59 % in rounds 6, 4 and 5, at 2 MB and 2 s per round."""
    plan = plan_records(tmp_path, target=0.59)
    write_records(plan)
    text = text_of(plan)
    assert row_of(text, "fedavg") == ["61.00", "±1.00", "59.00", "±1.00", "-", "-"]
    fedcog = ["71.33", "±1.53", "69.33", "±1.53", "+10.33", "±1.43", "+0.00", "±4.30"]
    assert row_of(text, "fedcog") == fedcog
    costs = text[text.index("Until 59.00 %") :]
    assert row_of(costs, "fedavg") == ["5", "10.0", "10.0"]
    assert row_of(costs, "vhl")[0] == "-"


def test_a_lead_is_written_only_where_the_test_shows_it(tmp_path: Path) -> None:
    """FedCOG minus its placebo is -1, 2, -1: margin 4.30 as above. With deviation 1.73, six seeds
    show equivalence: t(0.95, 5) = 2.015, and 2.015 x 1.73 / sqrt 6 = 1.42 is below 1.5."""
    plan = plan_records(tmp_path)
    write_records(plan)
    first, second, third = sentences(read_outcome(tmp_path))
    assert "ahead of FedAvg: fedcog;" in first
    assert "behind FedAvg: vhl;" in first
    assert "undecided against FedAvg: lg-fedavg." in first
    assert second == "Ahead of its placebo: vhl; undecided against its placebo: fedcog."
    assert third.startswith("Undecided is not equal: lg-fedavg against FedAvg (")
    power = "(differences below 4.3 points are invisible, and about 3 more seeds would settle it)"
    assert third.endswith(f"fedcog against its placebo {power}.")


def test_verdicts_are_corrected_among_methods_and_among_placebos(tmp_path: Path) -> None:
    """Of three methods FedCOG has the smallest p-value, and VHL the next, which is doubled."""
    plan = plan_records(tmp_path)
    write_records(plan)
    outcome = read_outcome(tmp_path)
    found = {name: outcome.to_baseline(one) for name, one in outcome.by_name.items()}
    alone = paired_difference(
        *(
            {seed: one.last_five for seed, one in outcome.by_name[name].scores.items()}
            for name in ("vhl(width=8)", "fedavg")
        )
    )
    assert alone is not None
    assert alone.p_different is not None
    judged = found["vhl(width=8)"]
    assert judged is not None
    assert judged.p_different == pytest.approx(2 * alone.p_different)
    assert found["fedavg"] is None


def test_one_seed_claims_nothing(tmp_path: Path) -> None:
    plan = plan_records(tmp_path, seeds="0")
    write_records(plan)
    text = text_of(plan)
    assert row_of(text, "fedcog") == ["70.00", "68.00", "+10.00", "-1.00"]
    assert "nothing is claimed" in " ".join(text.split())
    assert "ahead" not in text.lower()


def test_scores_without_a_global_model_are_marked(tmp_path: Path) -> None:
    plan = plan_records(tmp_path, seeds="0")
    write_records(plan)
    text = text_of(plan)
    assert row_of(text, "lg-fedavg")[:2] == ["30.00*", "28.00*"]
    assert "* the average of the clients' models" in text


def test_failed_and_damaged_runs_are_named_and_the_others_stay(tmp_path: Path) -> None:
    plan = plan_records(tmp_path)
    jobs = plan.runs({})
    fedavg, fedcog, *_, local = jobs[:6]
    write_records(plan, {fedcog.folder: "the disk is full"})
    (local.folder / "results.jsonl").write_bytes(b"\xff\xfe\n")
    lines = (fedavg.folder / "results.jsonl").read_text().splitlines()
    (fedavg.folder / "results.jsonl").write_text("\n".join([lines[0], "{cut", *lines[2:]]))
    outcome = read_outcome(tmp_path)
    said = "\n".join(remarks(outcome))
    assert "fedcog, seed 0, failed: the disk is full" in said
    assert f"{local.folder}/results.jsonl is damaged: it is not UTF-8" in said
    assert f"{fedavg.folder}/results.jsonl is damaged: line 2 is not JSON" in said
    assert sorted(outcome.by_name["fedcog(start=2)"].scores) == [1, 2]


def test_a_row_without_any_run_is_shown_as_failed(tmp_path: Path) -> None:
    plan = plan_records(tmp_path, seeds="0")
    write_records(plan, {plan.runs({})[1].folder: "no"})
    assert row_of(text_of(plan), "fedcog") == ["failed", "-", "-", "-"]


def test_numbers_can_be_taken_away(tmp_path: Path) -> None:
    plan = plan_records(tmp_path)
    write_records(plan, {plan.runs({})[1].folder: "no"})
    outcome = read_outcome(tmp_path)
    names = {"csv": "a.csv", "json": "a.json", "latex": "a.tex"}
    files = {kind: tmp_path / name for kind, name in names.items()}
    assert write_files(WRITERS, outcome, files) == files
    head, first, *others = (tmp_path / "a.csv").read_text().splitlines()
    assert head == (
        "methods,placebo,lr,schedule,seed,final_accuracy,last5_accuracy,final_balanced_accuracy,"
        "last5_balanced_accuracy,final_macro_f1,last5_macro_f1,final_auc,last5_auc,"
        "averaged_local_models,rounds_to_target,bytes_to_target,seconds_to_target,drift,secagg,failed"
    )
    assert first == "fedavg,,0.05,constant,0,0.6,0.58,,,,,,,False,6,12000000,12.0,0.5,True,"
    assert len(others) == 17
    assert others[2].endswith(",constant,0,,,,,,,,,,,,,,True,no")
    content = json.loads((tmp_path / "a.json").read_text())
    vhl = next(row for row in content["rows"] if row["name"] == "vhl(width=8)")
    assert vhl["to_placebo"]["verdict"] == "ahead"
    assert (vhl["to_placebo"]["seeds_missing"], content["equivalence"]) == (0, 0.015)
    assert vhl["to_placebo"]["mean"] == pytest.approx((0.1 + 0.105 + 0.1) / 3)
    latex = (tmp_path / "a.tex").read_text()
    assert r"vhl(width=8, shuffle\_labels=True) & $40.83 \pm 1.04$" in latex


def test_a_comparison_is_shown_again_and_plain_folders_still_are(tmp_path: Path) -> None:
    plan = plan_records(tmp_path, seeds="0")
    write_records(plan)
    narrow = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    again = narrow.invoke(app, ["compare", str(tmp_path), "--csv", str(tmp_path / "a.csv")])
    assert again.exit_code == 0, again.output
    assert "placebo of fedcog" in again.output
    assert (tmp_path / "a.csv").exists()
    refused = narrow.invoke(app, ["compare", str(tmp_path), "--lr", "1", "--seeds", "0"])
    assert "--lr would run something" in str(refused.exception.problems)  # type: ignore[union-attr]
    assert "--seeds would run something" in str(refused.exception.problems)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("methods", "allowed"),
    [("fedavg", True), ("vhl", True), ("fedmd-cg", False), ("fedmd-cg(aggregation='ave')", True)],
)
def test_what_runs_under_secure_aggregation(methods: str, allowed: bool) -> None:
    config = configure({"methods": methods, "clients": 2, "validation": 0.1, "diagnostics": True})
    assert allows_secagg(config) is allowed


def test_learning_rates_are_chosen_on_validation_data_alone(tmp_path: Path) -> None:
    """The rate with the best test accuracy loses against the one with the best validation."""
    layers = [{"rounds": 7, "clients": 5, "out": str(tmp_path)}]
    plan = make_plan(layers, ["fedprox"], "0", controls=True, tune=3, schedules=[], share=False)
    validation = {0.05: 0.5, 0.0167: 0.7, 0.15: 0.6}
    for job in plan.trials():
        write_trial(job, validation[job.config.lr])
    best = Choice(0.0167, "constant")
    assert choose(plan.trials()) == {"fedavg": best, "fedprox": best}
    record(plan, plan.runs(choose(plan.trials())), {})
    text = text_of(plan)
    assert "fedavg with lr=0.05" in " ".join(text.split())
    assert "fedprox lr=0.0167" in text


def test_schedules_are_chosen_on_validation_data_and_shown(tmp_path: Path) -> None:
    """FedAvg keeps its rate and gets a cosine; FedProx keeps what was given."""
    layers = [{"rounds": 7, "clients": 5, "out": str(tmp_path)}]
    asked = {"controls": True, "tune": 0, "schedules": ["cosine"]}
    plan = make_plan(layers, ["fedprox"], "0", **asked, share=False)
    for job in plan.trials():
        better = (job.row.methods, job.config.schedule) == ("fedavg", "cosine")
        write_trial(job, 0.6 if better else 0.5)
    assert choose(plan.trials()) == {
        "fedavg": Choice(0.05, "cosine"),
        "fedprox": Choice(0.05, "constant"),
    }
    record(plan, plan.runs(choose(plan.trials())), {})
    outcome = read_outcome(plan.folder)
    assert [(one.entry.name, one.entry.schedule) for one in outcome.standings] == [
        ("fedavg with constant", "constant"),
        ("fedavg", "cosine"),
        ("fedprox", "constant"),
    ]
    text = " ".join(text_of(plan).split())
    for name in ("fedavg with constant", "fedavg cosine", "fedprox constant"):
        assert name in text


def write_trial(job: Job, validation: float) -> None:
    """Write a run that is as bad on the test set as it is good on validation data."""
    write_run(job, final=1 - validation)
    path = job.folder / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[1:-1]:
        line["validation"] = {"loss": 1.0, "accuracy": validation}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_damaged_run_among_folders_is_named_and_left_out(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    run_in_process(good, **{**SMALL, "rounds": 1})
    bad.mkdir()
    (bad / "results.jsonl").write_bytes(b'{"kind": "config"}\n\xff\n')
    shown = CliRunner(env={"COLUMNS": "300", "TERM": "dumb"})
    text = shown.invoke(app, ["compare", str(bad), str(good)]).output
    assert f"{bad}/results.jsonl is damaged" in text.replace("\n", "")  # a long path is folded
    assert [row for row in text.splitlines() if row.startswith("good ")]
    refused = shown.invoke(app, ["compare", str(bad)])
    assert "is damaged" in str(refused.exception)


def test_another_baseline_takes_the_place_of_fedavg(tmp_path: Path) -> None:
    """It comes second, so it has the scores of the second row: 10, 11 and 10 above FedAvg."""
    question = Question("A title", "vhl(width=8)")
    plan = plan_records(tmp_path, question=question)
    write_records(plan)
    outcome = read_outcome(tmp_path)
    assert outcome.question == question
    assert outcome.to_baseline(outcome.by_name["vhl(width=8)"]) is None
    found = outcome.to_baseline(outcome.by_name["fedavg"])
    assert found is not None
    assert found.mean == pytest.approx(-0.31 / 3)
    text = text_of(plan)
    assert text.splitlines()[0].strip() == "A title"
    assert "- vhl" in text
    assert "behind vhl: fedavg;" in " ".join(text.split())


def test_rows_are_sorted_and_a_title_says_what_is_the_same_in_all(tmp_path: Path) -> None:
    plan = plan_records(tmp_path)
    write_records(plan)
    text = text_of(plan)
    first = text[text.index("─") : text.index("Until")]
    names = [line.split("  ")[0].strip() for line in first.splitlines()[1:] if line.strip()]
    assert set(names[:2]) == {"fedcog", "placebo of fedcog"}  # both have 71.33 %
    assert names[2:] == ["fedavg", "vhl", "lg-fedavg", "placebo of vhl"]
    assert "in every line: drift 0.5, secagg yes" in " ".join(text.split())


def test_local_models_have_scores_of_their_own() -> None:
    line = {"accuracy": 0.5, "evaluation": {f"{TEST_SHARD}accuracy": 0.7}}
    assert score_of(line, "accuracy") == 0.5
    assert score_of(line, "accuracy", "local") == 0.7
    assert score_of({"accuracy": 0.5}, "accuracy", "local") is None
