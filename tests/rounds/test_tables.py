"""Whole runs on a table: all clients form its normalisation, and whoever needs it knows it."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message

from fedmirage.client.app import make_app
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.named import divide
from fedmirage.common.data.tables.statistics import Scale
from fedmirage.common.errors import ConfigurationError, FedmirageError, WireError
from fedmirage.common.models.files import load_model
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.preparation import DONE, PREPARE
from fedmirage.common.wire.statistics import NORMALISATION, STATISTICS
from fedmirage.runtimes.quick import BASE
from fedmirage.server.messages.properties import ask_for_properties, read_properties
from fedmirage.server.messages.replies import exchange, read_reply
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.server.run import run
from fedmirage.server.start import check_run
from tests.support.inprocess import InProcessGrid, node_id, run_in_process
from tests.support.runs import KilledError, assert_same_bits, kill_in_round, lines
from tests.support.tables import (
    SCHEMA,
    federation,
    line_of,
    with_scale,
    write_rows,
    write_schema,
    write_table,
)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Settings of a small run on a table that three clients share."""
    dataset = line_of(write_table(tmp_path), write_schema(tmp_path))
    return {**BASE, "dataset": dataset, "partition": "iid", "clients": 3}


def test_the_normalisation_is_that_of_all_training_rows(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    run_in_process(tmp_path / "run", **settings)
    (line,) = lines(tmp_path / "run", "normalisation")
    config = configure(settings)
    data = load(config.dataset)
    rows = data.train.images[np.concatenate(divide(config, data))].astype(np.float64)
    for name, channel in (("age", 0), ("weight", 7)):
        values = rows[:, channel]
        found = line["columns"][name]
        assert found["mean"] == pytest.approx(np.nanmean(values), rel=1e-12)
        assert found["std"] == pytest.approx(np.nanstd(values), rel=1e-9)
        assert found["count"] == np.isfinite(values).sum()
    assert line["clients"] == [0, 1, 2]


def test_checkpoint_and_model_file_know_it(settings: dict[str, Any], tmp_path: Path) -> None:
    run_in_process(tmp_path / "run", **settings)
    (line,) = lines(tmp_path / "run", "normalisation")
    scale = read_checkpoint(tmp_path / "run" / "checkpoint.safetensors").scale
    _, facts = load_model(tmp_path / "run" / "model.safetensors")
    assert scale == (facts.mean, facts.std)
    assert facts.mean[0] == line["columns"]["age"]["mean"]
    assert facts.std[7] == line["columns"]["weight"]["std"]
    assert facts.schema == load(settings["dataset"]).schema
    row = torch.tensor([[scale[0][0], 1, 0, 1, 0, 0, 0, torch.nan]]) if scale else torch.empty(0)
    assert facts.normalise(row).tolist() == [[0, 1, 0, 1, 0, 0, 0, 0]]


def test_a_resumed_run_gives_the_same_bits(settings: dict[str, Any], tmp_path: Path) -> None:
    settings["rounds"] = 3
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_in_process(whole, **settings)
    with pytest.raises(KilledError):
        run_in_process(killed, kill_in_round(2), **settings)
    run_in_process(killed, **{**settings, "resume": str(killed)})
    assert_same_bits(whole, killed)
    assert lines(whole, "normalisation") == lines(killed, "normalisation")


def test_a_warm_start_keeps_the_normalisation_of_its_weights(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    run_in_process(tmp_path / "one", **settings)
    more = {"warm_start": str(tmp_path / "one"), "rounds": 3, "partition": "classes(per_client=1)"}
    run_in_process(tmp_path / "two", **{**settings, **more, "clients": 2})
    assert lines(tmp_path / "two", "normalisation") == []
    scales = [
        read_checkpoint(tmp_path / name / "checkpoint.safetensors").scale for name in ("one", "two")
    ]
    assert scales[0] == scales[1]


def test_what_the_schema_has_is_used(settings: dict[str, Any], tmp_path: Path) -> None:
    write_schema(tmp_path, with_scale())
    run_in_process(tmp_path / "run", **settings)
    assert lines(tmp_path / "run", "normalisation") == []
    assert load_model(tmp_path / "run" / "model.safetensors")[1].mean[7] == 80.5


def test_a_method_that_prepares_gets_it(settings: dict[str, Any], tmp_path: Path) -> None:
    methods = "distil(per_class=1, steps=2)"
    run_in_process(tmp_path / "run", **{**settings, "methods": methods})
    assert lines(tmp_path / "run")[-1]["refused"] == []


def test_a_client_takes_no_other_normalisation_in_the_same_run(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """Neither in a turn of preparation, which knows no round, nor in one of training."""
    settings |= {"methods": "distil(per_class=1, steps=2)", "clients": 1}
    run_in_process(tmp_path / "run", **settings)
    state = read_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert state.scale is not None
    grid = InProcessGrid(make_app(configure(settings), tmp_path / "run" / "memory"), 1)
    other = Scale(state.scale[0], (2.0,) * len(state.scale[1])).to_bytes()
    for told, refused in (({}, False), ({NORMALISATION: other}, True)):
        asked = {PREPARE: 1.0, **state.identity, **told}
        ((_, reply),) = exchange(grid, [ask_for_properties(node_id(0), asked)], 60)
        if refused:
            with pytest.raises(WireError, match="another normalisation of the table than before"):
                read_reply(reply, read_properties)
        else:
            assert DONE in read_reply(reply, read_properties)


def test_nodes_with_tables_of_their_own(settings: dict[str, Any], tmp_path: Path) -> None:
    schema = write_schema(tmp_path, name="copy.toml")
    paths = [write_table(tmp_path, 20 + 10 * node, node, f"{node}.csv") for node in range(3)]
    grid, config = federation(tmp_path, settings, [(path, schema) for path in paths])
    run(grid, config)
    (line,) = lines(tmp_path / "run", "normalisation")
    pooled = [load(line_of(path, schema, test_share=0.0)).train.images[:, 7] for path in paths]
    values = np.concatenate(pooled).astype(np.float64)
    assert line["columns"]["weight"]["mean"] == pytest.approx(np.nanmean(values), rel=1e-12)
    assert line["columns"]["weight"]["count"] == np.isfinite(values).sum()


def test_a_node_with_another_schema_is_refused(
    settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = write_schema(tmp_path, SCHEMA.replace('"blue"', '"violet"'), "other.toml")
    path = write_rows(tmp_path, "p1,30,red,70,no", "p2,40,violet,80,yes")
    grid, config = federation(tmp_path, settings, [(path, other)])
    with caplog.at_level(logging.WARNING), pytest.raises(FedmirageError) as raised:
        run(grid, config)
    assert "the schema of its table is another one" in str(raised.value)
    assert "colour" not in str(raised.value)
    assert "what it says of the column 'colour' differs" in caplog.text


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (("p1,30,purple,70,no", "p2,40,red,80,yes"), "1 of the 2 values of 'colour'"),
        (("p1,30,red,70,no,1", "p2,40,red,80,yes,2"), "the column 'extra' is not in the schema"),
    ],
)
def test_the_server_learns_only_that_a_node_refused(
    rows: tuple[str, ...],
    told: str,
    settings: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    header = "patient,age,colour,weight,outcome" + ",extra" * rows[0].endswith(",1")
    path = write_rows(tmp_path, *rows, header=header)
    grid, config = federation(tmp_path, settings, [(path, tmp_path / "schema.toml")])
    with caplog.at_level(logging.WARNING), pytest.raises(FedmirageError) as raised:
        run(grid, config)
    assert "its data cannot be used; its own log says why" in str(raised.value)
    assert told not in str(raised.value)
    assert told in caplog.text
    assert "purple" not in caplog.text


def test_a_node_needs_its_own_copy_of_the_schema(settings: dict[str, Any], tmp_path: Path) -> None:
    grid, config = federation(tmp_path, settings, [(tmp_path / "table.csv", Path())])
    grid.contexts[node_id(0)].node_config["schema"] = ""
    with pytest.raises(FedmirageError, match="its owner names its copy of the schema"):
        run(grid, config)


def test_dp_needs_the_means_in_the_schema(settings: dict[str, Any], tmp_path: Path) -> None:
    private = {**settings, "dp": "central(clip=1, noise=1)"}
    with pytest.raises(ConfigurationError) as raised:
        check_run(configure(private), tmp_path / "run")
    assert "'age', 'weight'" in str(raised.value)
    write_schema(tmp_path, with_scale())
    run_in_process(tmp_path / "run", **private)


def test_labels_of_one_class_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    rows = [f"p{row},30,red,{70 + row},no" for row in range(9)]
    dataset = line_of(write_rows(tmp_path, *rows), tmp_path / "schema.toml")
    with pytest.raises(ConfigurationError, match="are all of one class"):
        check_run(configure({**settings, "dataset": dataset}), tmp_path / "run")


SECURE = {"secagg": "on"}


def test_a_secure_sum_gives_what_the_plain_one_does(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    seen: list[str] = []

    def intercept(_: int, reply: Message) -> Message:
        seen.extend(str(record) for record in reply.content.config_records.values())
        return reply

    run_in_process(tmp_path / "plain", **settings)
    run_in_process(tmp_path / "secure", intercept, **settings, **SECURE)
    (plain,), (secure,) = (lines(tmp_path / name, "normalisation") for name in ("plain", "secure"))
    for name in ("age", "weight"):
        ours, theirs = secure["columns"][name], plain["columns"][name]
        assert ours["count"] == theirs["count"]
        assert ours["mean"] == pytest.approx(theirs["mean"], rel=1e-6)
        assert ours["std"] == pytest.approx(theirs["std"], rel=1e-5)
    assert secure["clients"] == [0, 1, 2]
    assert not any(STATISTICS in told for told in seen)


@pytest.mark.parametrize(("answered", "tried"), [(0, 0), (1, 1)])
def test_a_lost_client_is_left_out_of_the_secure_sum(
    answered: int, tried: int, settings: dict[str, Any], tmp_path: Path
) -> None:
    """One that was lost while keys are shared ends the try, which is recorded like a round's."""
    settings |= {"clients": 4, "retries": 2, "round_timeout": 0.5}
    left = [answered]

    def lose(node: int, reply: Message) -> Message | None:
        of_sums = reply.metadata.message_type == "train" and reply.metadata.group_id == "0"
        if not of_sums or node != node_id(3):
            return reply
        left[0] -= 1
        return reply if left[0] >= 0 else None

    run_in_process(tmp_path / "run", lose, **settings, **SECURE)
    assert [line["round"] for line in lines(tmp_path / "run", "retry")] == [0] * tried
    (line,) = lines(tmp_path / "run", "normalisation")
    config = configure(settings)
    data, parts = load(config.dataset), divide(config, load(config.dataset))
    assert line["clients"] == [0, 1, 2]
    rows = data.train.images[np.concatenate(parts[:3]), 7].astype(np.float64)
    assert line["columns"]["weight"]["mean"] == pytest.approx(np.nanmean(rows), rel=1e-6)


def test_a_silent_client_is_asked_again(settings: dict[str, Any], tmp_path: Path) -> None:
    settings |= {"retries": 1, "node_timeout": 0.5}
    dropped: list[int] = []

    def drop_once(node: int, reply: Message) -> Message | None:
        told = str(reply.content.config_records.values())
        if STATISTICS in told and not dropped:
            dropped.append(node)
            return None
        return reply

    run_in_process(tmp_path / "run", drop_once, **settings)
    assert dropped
    assert lines(tmp_path / "run", "normalisation")[0]["clients"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "secagg", "told"),
    [
        (
            SCHEMA.replace("low = 0\nhigh = 120\n", ""),
            "on",
            "write low and high into the schema for 'age'",
        ),
        (SCHEMA, "flower", "Flower's protocol cannot add up the columns"),
    ],
)
def test_what_a_secure_sum_lacks_is_told_before_the_start(
    text: str, secagg: str, told: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    write_schema(tmp_path, text)
    with pytest.raises(ConfigurationError, match=told):
        check_run(configure({**settings, "secagg": secagg}), tmp_path / "run")
    write_schema(tmp_path, with_scale(text))
    run_in_process(tmp_path / "run", **settings, secagg=secagg)


def test_no_client_tells_its_own_sums_where_they_are_hidden(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    config = configure({**settings, **SECURE, "out": str(tmp_path / "run")})
    grid = InProcessGrid(make_app(config, tmp_path / "memory"), 3)
    asked = ask_for_properties(node_id(0), {STATISTICS: True})
    ((_, reply),) = exchange(grid, [asked], 1.0)
    with pytest.raises(WireError, match="the run hides them"):
        read_reply(reply, read_properties)


def test_the_same_table_is_added_up_with_the_same_clients_only(
    settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema, nodes = (
        tmp_path / "schema.toml",
        [write_table(tmp_path, 20, n, f"{n}.csv") for n in range(4)],
    )

    def start(number: int, clients: list[int], seed: int) -> None:
        """Run once more; all runs find the memories of the same nodes."""
        folder = tmp_path / str(number)
        own = [(nodes[client], schema) for client in clients]
        grid, config = federation(folder, {**settings, **SECURE, "seed": seed}, own)
        app = make_app(config, tmp_path / "memory")
        again = InProcessGrid(app, len(clients))
        for partition, context in grid.contexts.items():
            again.contexts[partition].node_config.update(context.node_config)
        run(again, config)

    start(1, [0, 1, 2], seed=0)
    start(2, [0, 1, 2], seed=1)
    with caplog.at_level(logging.WARNING):
        start(3, [0, 1, 2, 3], seed=2)
    assert "has added up its table with the clients 0 1 2" in caplog.text
    found = [lines(tmp_path / name / "run", "normalisation")[0] for name in ("1", "2", "3")]
    assert found[0] == found[1] == found[2]

    with nodes[0].open("a") as table:  # one more patient, whom the difference would show
        table.write("p99,100,red,150,yes\n")
    with pytest.raises(FedmirageError, match="are not those that it added up in an earlier run"):
        start(4, [0, 1, 2], seed=3)
