"""Runs whose server reads no data: the sites score the models on what they hold out."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.learning.task import TASKS, evaluate
from fedmirage.common.models.files import load_model
from fedmirage.common.settings.config import configure
from fedmirage.comparison.folders import lay_out_runs
from fedmirage.comparison.scores import read_score
from fedmirage.records.lines import read_rounds
from fedmirage.server.run import run
from fedmirage.show.progress import summary_table
from tests.support.deployed import deploy
from tests.support.inprocess import run_in_process
from tests.support.owners import CLOTHES, federation, write_folders, write_set
from tests.support.runs import SMALL, KilledError, assert_same_bits, kill_in_round, lines, weights

NONE: dict[str, Any] = {**SMALL, "model": "mlp(hidden=16)", "server_data": "none"}
NONE |= {"partition": "dirichlet(alpha=0.5)"}
LINE = "npz(path='elsewhere.npz', classes=('a', 'b', 'c'), size=16, channels=1)"


def sites(folder: Path) -> list[dict[str, Any]]:
    return lines(folder, "held_out")


@pytest.mark.parametrize("methods", ["fedavg", "scaffold", "fedper"])
def test_weights_do_not_depend_on_who_scores(tmp_path: Path, methods: str) -> None:
    run_in_process(tmp_path / "none", **NONE, methods=methods)
    run_in_process(tmp_path / "test", **{**NONE, "server_data": "test"}, methods=methods)
    assert_same_bits(tmp_path / "none", tmp_path / "test")


def test_of_a_common_set_the_mean_by_examples_is_the_accuracy_on_its_test_split(
    tmp_path: Path,
) -> None:
    """The shares of the clients are its parts, so both runs score the same samples."""
    run_in_process(tmp_path / "none", **NONE)
    run_in_process(tmp_path / "test", **{**NONE, "server_data": "test"})
    for site, line in zip(sites(tmp_path / "none"), lines(tmp_path / "test"), strict=True):
        assert site["round"] == line["round"]
        assert site["examples"] == 200
        assert site["by_examples"]["accuracy"] == pytest.approx(line["accuracy"])
        assert site["by_examples"]["loss"] == pytest.approx(line["loss"])
    for line in lines(tmp_path / "none"):
        assert line["accuracy"] is None
        assert "confusion" not in line["evaluation"]


def test_both_means_against_numpy(tmp_path: Path) -> None:
    """The last model on what three folders hold out, one by one."""
    paths = [write_set(tmp_path / name, count, at) for at, (name, count) in enumerate(FOLDERS)]
    grid, config = federation(tmp_path, LINE, [*paths], server_data="none", model="mlp(hidden=8)")
    run(grid, config)
    model, facts = load_model(tmp_path / "run" / "model.safetensors")
    scores, held = [], []
    for path in paths:
        data = load(f"npz(path={path!r}, classes=('a', 'b', 'c'))")
        images = (data.test.images.astype(np.float32) / 255 - 0.5) / 0.5
        batch = torch.tensor(images), torch.tensor(data.test.labels)
        scores.append(evaluate(model, [batch], TASKS["single-label"])["accuracy"])
        held.append(len(data.test))
    last = sites(tmp_path / "run")[-1]
    assert facts.classes == ("a", "b", "c")
    assert last["round"] == 2
    assert last["by_examples"]["accuracy"] == pytest.approx(np.average(scores, weights=held))
    assert last["by_sites"]["accuracy"] == pytest.approx(np.mean(scores))
    assert (last["holding"], last["examples"], last["without"]) == (3, sum(held), 0)


FOLDERS = (("a", 30), ("b", 90), ("c", 60))


def test_secure_sums_give_the_same_means(tmp_path: Path) -> None:
    for secagg in ("off", "on"):
        run_in_process(tmp_path / secagg, **NONE, secagg=secagg)
    for plain, secure in zip(sites(tmp_path / "off"), sites(tmp_path / "on"), strict=True):
        assert "without_partitions" in plain
        assert "without_partitions" not in secure
        for kind in ("by_examples", "by_sites"):
            assert secure[kind]["accuracy"] == pytest.approx(plain[kind]["accuracy"], abs=1e-6)
            assert secure[kind]["loss"] == pytest.approx(plain[kind]["loss"], abs=1e-4)
        assert secure["examples"] == plain["examples"]
        assert secure["holding"] == plain["holding"]
    assert all(set(client) == {"partition"} for client in lines(tmp_path / "on")[-1]["clients"])


@pytest.mark.parametrize("secagg", ["off", "on"])
def test_a_site_that_holds_out_nothing_is_counted_and_named(
    tmp_path: Path, secagg: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One sample of each class: each stays in training."""
    counts = {"a": 30, "b": 3, "c": 60}
    paths = [write_set(tmp_path / name, count, 1) for name, count in counts.items()]
    more = {"server_data": "none", "model": "mlp(hidden=8)", "secagg": secagg}
    with caplog.at_level(logging.INFO):
        run(*federation(tmp_path, LINE, [*paths], **more))
    last = sites(tmp_path / "run")[-1]
    assert (last["holding"], last["examples"], last["without"]) == (2, 18, 1)
    assert last.get("without_partitions") == (None if secagg == "on" else [1])
    (note,) = lines(tmp_path / "run", "note")
    who = "1 of the sites" if secagg == "on" else "client 1"
    assert note["text"] == f"{who} holds out no data, and the sites' scores do without"
    assert "on the held-out data of 2 of 3 sites" in caplog.text


def test_nobody_holds_out_anything(tmp_path: Path) -> None:
    paths = [write_set(tmp_path / name, 3, 1) for name in "ab"]
    run(*federation(tmp_path, LINE, [*paths], server_data="none", model="mlp(hidden=8)"))
    last = sites(tmp_path / "run")[-1]
    assert (last["by_examples"], last["holding"], last["without"]) == ({}, 0, 2)
    assert read_score(tmp_path / "run", "sites") is None


def test_methods_that_share_a_part_score_the_sites_own_models(tmp_path: Path) -> None:
    run_in_process(tmp_path, **NONE, methods="lg-fedavg")
    assert [line["model"] for line in sites(tmp_path)] == ["personal"] * 3
    for line, site in zip(lines(tmp_path), sites(tmp_path), strict=True):
        name = "local_model.on_test_shard.by_examples.accuracy"
        own = [client[name] for client in line["clients"]]
        assert site["round"] == line["round"]
        assert site["by_sites"]["accuracy"] == pytest.approx(np.mean(own))


def test_rounds_without_evaluation_are_not_scored_but_the_last_one_is(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**NONE, "rounds": 5, "eval_every": 2})
    assert [line["round"] for line in sites(tmp_path)] == [2, 4, 5]


@pytest.mark.parametrize("killed_in", [2, 3])
def test_a_resumed_run_has_every_score_once(tmp_path: Path, killed_in: int) -> None:
    run_in_process(tmp_path / "whole", **NONE)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", **NONE, intercept=kill_in_round(killed_in))
    run_in_process(tmp_path / "cut", **NONE, resume=str(tmp_path / "cut"))
    assert sites(tmp_path / "cut") == sites(tmp_path / "whole")
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("secagg", ["off", "on"])
def test_a_run_goes_on_after_its_last_model_was_scored(tmp_path: Path, secagg: str) -> None:
    """What a client answers without training must not stand for its training in that round."""
    more = {**NONE, "secagg": secagg}
    run_in_process(tmp_path / "whole", **more)
    run_in_process(tmp_path / "two", **{**more, "rounds": 2})
    run_in_process(tmp_path / "two", **more, resume=str(tmp_path / "two"))
    assert [line["round"] for line in sites(tmp_path / "two")] == [1, 2, 3]
    for one, other in zip(weights(tmp_path / "whole"), weights(tmp_path / "two"), strict=True):
        assert np.array_equal(one, other)


def test_a_last_model_that_nobody_scores_is_saved_and_scored_later(tmp_path: Path) -> None:
    def silent_at_the_end(node: int, reply: Any) -> Any:
        return None if reply.metadata.group_id == "4" else reply

    late = {**NONE, "round_timeout": 0.3, "retries": 0}
    with pytest.raises(FedmirageError, match="round 3 is saved, but the sites have not scored it"):
        run_in_process(tmp_path, **late, intercept=silent_at_the_end)
    assert [line["round"] for line in sites(tmp_path)] == [1, 2]
    run_in_process(tmp_path, **late, resume=str(tmp_path))
    assert [line["round"] for line in sites(tmp_path)] == [1, 2, 3]
    assert lines(tmp_path, "summary")[0]["final_held_out"] == sites(tmp_path)[-1]


def test_the_headline_is_named_where_it_is_shown(tmp_path: Path) -> None:
    run_in_process(tmp_path, **NONE)
    (summary,) = lines(tmp_path, "summary")
    mean, once = (
        summary["final_held_out"][kind]["accuracy"] for kind in ("by_examples", "by_sites")
    )
    assert summary["final_accuracy"] is None
    names, values = (list(column.cells) for column in summary_table(summary).columns)
    shown = dict(zip(names, map(str, values), strict=True))
    assert shown["accuracy at the sites, weighted by examples"] == f"{100 * mean:.2f} %"
    assert shown["accuracy at the sites, every site once"] == f"{100 * once:.2f} %"
    assert shown["held-out data"] == "4 of 4 sites, 200 samples"
    console = Console(width=80, file=io.StringIO())
    console.print(lay_out_runs([tmp_path]))
    assert f"accuracy at the sites, weighted by examples: {100 * mean:.2f} %" in (
        console.file.getvalue()  # type: ignore[attr-defined]
    )
    found = {name: read_score(tmp_path, name) for name in ("sites", "each-site", "global")}
    assert found["global"] is None
    assert (found["sites"].final, found["each-site"].final) == (mean, once)  # type: ignore[union-attr]
    assert [line["held_out"]["round"] for line in read_rounds(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize("privacy", [{"dp": "local(clip=1, noise=0.1)"}, {"secagg": "flower"}])
def test_where_no_metric_may_leave_a_client_nothing_is_scored_and_that_is_said(
    tmp_path: Path, privacy: dict[str, Any]
) -> None:
    run_in_process(tmp_path, **{**NONE, "rounds": 1}, **privacy)
    assert sites(tmp_path) == []
    (summary,) = lines(tmp_path, "summary")
    assert any("no model of this run is scored, because" in note for note in summary["notes"])


def test_the_server_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names a file that is not there; the nodes have others."""
    paths = [write_set(tmp_path / name, 30, at) for at, name in enumerate("ab")]
    monkeypatch.setattr("fedmirage.server.start.load", lambda *_: pytest.fail("it was read"))
    run(*federation(tmp_path, LINE, [*paths], server_data="none", model="mlp(hidden=8)"))
    (config,) = lines(tmp_path / "run", "config")
    assert config["resolved"]["class_names"] == ["a", "b", "c"]
    assert config["resolved"]["shape"] == [1, 16, 16]
    assert "fingerprint" not in config["resolved"]


def test_nodes_with_copies_of_a_common_set_are_compared_with_each_other(tmp_path: Path) -> None:
    from tests.support.inprocess import node_id

    grid, config = federation(tmp_path, "digits(limit=300)", [None, None], server_data="none")
    answer = grid.intercept

    def another(node: int, reply: Any) -> Any:
        content = reply.content.config_records.get("getpropertiesres.properties")
        if content is not None and node == node_id(1):
            content["fingerprint"] = "0" * 64
        return answer(node, reply) if answer else reply

    grid.intercept = another
    with pytest.raises(
        FedmirageError, match=r"the fingerprint of its data is '\w+', another node's"
    ):
        run(grid, config)


def test_a_node_whose_classes_differ_is_refused(tmp_path: Path) -> None:
    line = f"imagefolder(path='x', classes={CLOTHES}, size=16, channels=1)"
    nodes = [write_folders(tmp_path / "a", *CLOTHES), write_folders(tmp_path / "b", "cat", "dog")]
    with pytest.raises(FedmirageError, match=r"its data cannot be used|has another name"):
        run(*federation(tmp_path, line, [*nodes], server_data="none"))


def test_everything_that_needs_data_on_the_server_is_refused_at_once() -> None:
    asked = {"target": 0.9, "patience": 2, "validation": 0.1, "diagnostics": True}
    with pytest.raises(ConfigurationError) as caught:
        configure(
            {
                **asked,
                "server_data": "none",
                "methods": "vhl(generator='dataset', dataset='digits'), swa",
                "dataset": "imagefolder(path='x')",
            }
        )
    said = caught.value.problems
    for part in ("target=0.9", "patience=2", "validation=0.1", "vhl makes its", "swa saves"):
        assert sum(part in one for one in said) == 1, part
    assert sum("which classes there are" in one for one in said) == 1
    assert sum("what form the inputs have" in one for one in said) == 1
    assert len(said) == 7


@pytest.mark.parametrize(
    ("methods", "why"),
    [
        ("fedlgd", "scores a model on the server's test set (diagnostics)"),
        ("vhl", "compares features with the server's test samples (diagnostics)"),
    ],
)
def test_measures_on_the_servers_samples_are_refused_with_diagnostics_only(
    methods: str, why: str
) -> None:
    asked = {"methods": methods, "server_data": "none"}
    configure(asked)
    with pytest.raises(ConfigurationError) as caught:
        configure({**asked, "diagnostics": True})
    assert [one for one in caught.value.problems if why in one]


def test_diagnostics_do_without_the_test_set(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**NONE, "rounds": 1}, diagnostics=True)
    metrics = lines(tmp_path)[-1]["diagnostics"]
    assert set(metrics) == {"drift", "samples"}


def test_lines_are_json_of_the_declared_format(tmp_path: Path) -> None:
    from fedmirage.server.record.format import HeldOutLine, SummaryLine

    run_in_process(tmp_path, **{**NONE, "rounds": 1})
    for text in (tmp_path / "results.jsonl").read_text().splitlines():
        line = json.loads(text)
        kinds = {"held_out": HeldOutLine, "summary": SummaryLine}
        if line["kind"] in kinds:
            kinds[line["kind"]].model_validate(line)


@pytest.mark.parametrize("secagg", ["off", "on"])
def test_deployed_nodes_write_down_the_message_of_scores_alone(tmp_path: Path, secagg: str) -> None:
    more = {"server_data": "none", "secagg": secagg, "clients": 3, "rounds": 1}
    deploy(tmp_path, {}, methods="fedavg", **more)
    assert [line["round"] for line in sites(tmp_path)] == [1]
    sent = (tmp_path / "memory-0" / "outgoing.jsonl").read_text()
    assert '"round": 2' in sent
