"""`fedmirage audit` as a user types it: what it writes, shows and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedmirage.audit.attack import (
    AuditFinding,
    AuditPicture,
    AuditTable,
    RecordedFinding,
    read_finding,
    write_finding,
)
from fedmirage.audit.attacks import ATTACKS, Histograms, Inversion, read_attacks
from fedmirage.audit.command import audit
from fedmirage.audit.plan import make_plan
from fedmirage.cli import app
from fedmirage.common.errors import ConfigurationError, DataError, FedmirageError
from fedmirage.report.data import gather
from fedmirage.report.page import render
from tests.support.inverted import TINY

QUICK = "inversion(images=2, restarts=1, iterations=3)"


def plan(folder: Path, methods: list[str], attack: str, **settings: Any) -> Any:
    return make_plan([], {**TINY, **settings}, methods, attack, folder)


def refused(folder: Path, methods: list[str], attack: str, **settings: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        plan(folder, methods, attack, **settings)
    assert not list(folder.iterdir()), "nothing is written before all is checked"
    return caught.value.problems


def test_an_audit_is_written_shown_and_on_the_page(tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    audit(plan(tmp_path, ["fedavg", "lg-fedavg"], QUICK), console)
    said = console.export_text()
    assert "Rebuilt 2 images with a median PSNR of" in said
    assert "The features of a client is not sent" not in said
    assert "What a client does not send, the features, is taken to begin" in said
    for name in ("fedavg", "lg-fedavg"):
        folder = tmp_path / f"{name}-inversion"
        facts = json.loads((folder / "audit.json").read_text())
        assert (facts["attack"], facts["methods"]) == (QUICK, name)
        assert len(facts["numbers"]["psnr"]) == 2
    page = render(gather([tmp_path]))
    assert page.index("inversion(images=2, restarts=1, iterations=3) on lg-fedavg") < page.index(
        'id="group-1-answer"'
    )
    assert "<h1>What do these methods give away?</h1>" in page
    assert "Which method helps" not in page
    assert page.count("2 training images, and what the attack made of the updates") >= 2


def test_histograms_of_fedmd_cg_are_told_exactly(tmp_path: Path) -> None:
    settings = {"partition": "classes(per_client=2)", "batch_size": 16, "local_steps": 2}
    done = audit(
        plan(tmp_path, ["fedmd-cg(server_steps=1)"], "histograms", **settings, rounds=1), Console()
    )
    distance = done.found[0][1].numbers["distance"]
    assert distance["label counts"] == 0
    assert distance["classifier"] < 0.3  # 0.8 if the server took all classes as equally likely
    assert set(distance) == {"label counts", "classifier", "generator"}


def test_an_attack_that_fails_does_not_end_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose training diverges is told, and what the others found is kept."""
    monkeypatch.setattr(Histograms, "carry_out", fail)
    console = Console(record=True, width=200)
    done = audit(plan(tmp_path, ["fedavg"], f"histograms, {QUICK}", rounds=1), console)
    assert "failed: training diverged" in console.export_text()
    assert [job.attack.name for job, _ in done.found] == ["inversion"]
    with pytest.raises(FedmirageError, match="1 of 2 attacks failed"):
        done.complain()


def test_a_page_about_nothing_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedmirage.audit.command.attack", fail)
    typed = ["audit", "--attack", "histograms", "--dataset", TINY["dataset"], "--model", "dlg-cnn"]
    result = CliRunner().invoke(app, [*typed, "--out", str(tmp_path / "audit")])
    assert "failed: training diverged" in result.output
    assert isinstance(result.exception, FedmirageError)
    assert "1 of 1 attacks failed" in str(result.exception)


def fail(*given: Any) -> AuditFinding:
    raise FedmirageError("training diverged")


def test_pages_of_several_attacks_begin_with_what_each_of_them_found(tmp_path: Path) -> None:
    """Runs of different attacks differ in their settings, so they are groups of their own."""
    audit(plan(tmp_path, ["fedavg"], "histograms", rounds=1), Console(quiet=True))
    audit(plan(tmp_path, ["fedavg"], QUICK, rounds=2), Console(quiet=True))
    first, second, *behind = gather([tmp_path])["html"]["groups"]
    assert [first["title"], second["title"]] == ["Histograms on fedavg", "Inversion on fedavg"]
    for group in (first, second):
        assert [one["id"].rpartition("-")[2] for one in group["sections"]] == ["audit"]
    assert len(behind) == 2


def test_one_failed_attack_does_not_turn_the_page_to_accuracy(tmp_path: Path) -> None:
    """It has left no audit.json, beside another one of the same settings that has."""
    audit(plan(tmp_path, ["fedavg", "lg-fedavg"], QUICK), Console(quiet=True))
    (tmp_path / "lg-fedavg-inversion" / "audit.json").unlink()
    (group,) = gather([tmp_path])["html"]["groups"]
    assert group["title"] == "Inversion on fedavg"
    assert group["sections"][0]["id"].endswith("-audit")


def test_the_page_about_an_audit_that_cannot_be_read(tmp_path: Path) -> None:
    audit(plan(tmp_path, ["fedavg"], QUICK), Console(quiet=True))
    (tmp_path / "fedavg-inversion" / "audit.json").write_text('{"version": 1}')
    (group,) = gather([tmp_path])["html"]["groups"]
    assert group["title"] == "What the messages give away"
    assert "is damaged" in group["sections"][0]["html"]


@pytest.mark.parametrize("line", ["all", " ALL, "])
def test_all_leaves_out_what_does_not_fit(line: str, tmp_path: Path) -> None:
    made = plan(tmp_path, ["vhl"], line, dataset="digits(limit=300)")
    assert "inversion" not in [job.attack.name for job in made.jobs]
    assert any("inversion is for fedavg" in note for note in made.notes)


@pytest.mark.parametrize(
    ("methods", "attack", "settings", "sentence"),
    [
        ("fedavg", "inverson", {}, "attack: no attack is called 'inverson'; did you mean"),
        ("fedavg", "inversion, inversion", {}, "attack: 'inversion' is listed more than once"),
        ("fedavg", "inversion(restarts=0)", {}, "attack: inversion(restarts=0): "),
        ("local", "inversion", {}, "methods='local' sends nothing"),
        ("local", "all", {}, "methods='local' sends nothing"),
        ("local", "inversion", {"secagg": "on", "clients": 2}, "methods='local' sends nothing"),
        ("fedavg", "", {}, "for example attack='inversion'"),
        ("fedavg", "all, epsilon", {}, "all stands for every attack"),
        ("dynafed", "inversion", {}, "dynafed's images never cross the wire"),
        ("vhl", "inversion", {}, "what vhl adds to training is not known"),
        ("fedavg", "inversion", {"secagg": "on", "clients": 2}, "fewer than 3 reveals single"),
        ("fedavg", "inversion", {"local_steps": 5, "batch_size": 2}, "at most 8 images apart"),
        ("fedavg", "inversion", {"local_steps": 0, "local_epochs": 1}, "number of local steps"),
        ("fedavg", "inversion", {"optimizer": "adam"}, "steps of SGD, but optimizer='adam'"),
        ("fedmd-cg", "inversion", {}, "write --batch-size 2"),
        ("fedavg", "inversion", {"dataset": "wine", "model": "mlp"}, "is for pictures"),
        ("fedavg", "histograms", {"optimizer": "adam"}, "steps of SGD, but optimizer='adam'"),
        ("fedavg", "inversion", {"server_data": "none"}, "server-data='none'"),
    ],
)
def test_bad_input_is_refused_before_any_round(
    methods: str, attack: str, settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    problems = refused(tmp_path, [methods], attack, **settings)
    assert any(sentence in problem for problem in problems), problems


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    problems = refused(tmp_path, ["local", "dynafed"], "inversion", optimizer="adam", clients=0)
    assert len(problems) == len(set(problems))
    problems = refused(tmp_path, ["local", "dynafed"], "inversion", optimizer="adam")
    for word in ("sends nothing", "dynafed", "SGD"):
        assert any(word in problem for problem in problems)


def test_a_folder_with_results_is_not_overwritten(tmp_path: Path) -> None:
    audit(plan(tmp_path, ["fedavg"], QUICK), Console(quiet=True))
    with pytest.raises(ConfigurationError, match="holds the results of another run"):
        plan(tmp_path, ["fedavg"], QUICK)


def test_what_was_found_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = AuditTable("T", ["a", "b"], [["x", 0.5], ["y", None]], "n")
    found = AuditFinding(["s"], [table], [AuditPicture("p.png", "c")], {"psnr": [1.5]})
    write_finding(tmp_path, Inversion(), "fedavg", found)
    assert read_finding(tmp_path) == RecordedFinding("inversion", "fedavg", found)
    (tmp_path / "audit.json").write_text('{"version": 1}')
    with pytest.raises(DataError, match="is damaged"):
        read_finding(tmp_path)


def test_every_attack_explains_itself() -> None:
    assert [attack.name for attack in read_attacks("ALL")] == list(ATTACKS)
    for attack in ATTACKS.values():
        assert attack.__doc__
        assert all(one.description for one in attack.model_fields.values())
