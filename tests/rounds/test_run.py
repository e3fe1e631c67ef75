"""Whole runs in one process: results, resume, warm start, validation, odd clients."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.wire.files import read_arrays
from fedmirage.server.record.results import read_results
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import (
    SMALL,
    KilledError,
    assert_same_bits,
    kill_in_round,
    lines,
    weights,
    without_times,
)


def test_a_run_writes_what_it_promises(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL)
    config, *rounds, summary = read_results(tmp_path / "results.jsonl")
    assert config["kind"] == "config"
    assert config["resolved"]["fingerprint"]
    assert config["versions"]["flwr"]
    assert [line["round"] for line in rounds] == [1, 2, 3]
    for line in rounds:
        assert {"accuracy", "loss", "train", "clients", "bytes_up", "bytes_down", "seconds"} <= set(
            line
        )
        assert [client["partition"] for client in line["clients"]] == [0, 1, 2, 3]
        assert line["train"]["task"] > 0
        assert line["bytes_up"] == line["bytes_down"] > 4 * 4 * config["resolved"]["parameters"]
    assert summary["status"] == "finished"
    assert summary["final_accuracy"] == rounds[-1]["accuracy"]
    named, _ = read_arrays(tmp_path / "model.safetensors")
    assert sum(array.size for array in named.values()) == config["resolved"]["parameters"]


def test_one_seed_one_result(tmp_path: Path) -> None:
    run_in_process(tmp_path / "a", **SMALL, participation=0.5)
    run_in_process(tmp_path / "b", **SMALL, participation=0.5)
    run_in_process(tmp_path / "c", **SMALL, participation=0.5, seed=1)
    assert_same_bits(tmp_path / "a", tmp_path / "b")
    assert without_times(tmp_path / "a") == without_times(tmp_path / "b")
    assert weights(tmp_path / "a")[0].tobytes() != weights(tmp_path / "c")[0].tobytes()
    assert [len(line["clients"]) for line in lines(tmp_path / "a")] == [2, 2, 2]
    assert (
        len(
            {
                tuple(client["partition"] for client in line["clients"])
                for line in lines(tmp_path / "a")
            }
        )
        > 1
    )


def test_it_learns(tmp_path: Path) -> None:
    run_in_process(
        tmp_path, dataset="digits", partition="iid", clients=2, rounds=4, local_epochs=2, lr=0.05
    )
    assert lines(tmp_path)[-1]["accuracy"] > 0.8


@pytest.mark.parametrize("methods", ["fedavg"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, methods: str) -> None:
    settings = {**SMALL, "rounds": 4, "participation": 0.75, "methods": methods}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    assert [line["round"] for line in lines(tmp_path / "cut")] == [1, 2]
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "cut")
    assert [line["status"] for line in lines(tmp_path / "cut", "summary")] == ["finished"]


def test_a_warm_start_goes_on_counting(tmp_path: Path) -> None:
    run_in_process(tmp_path / "long", **SMALL, keep_models="all")
    run_in_process(tmp_path / "start", **{**SMALL, "rounds": 2}, keep_models="all")
    run_in_process(tmp_path / "warm", **SMALL, warm_start=str(tmp_path / "start"))
    run_in_process(tmp_path / "earlier", **SMALL, warm_start=f"{tmp_path / 'long'}@2")
    assert [line["round"] for line in lines(tmp_path / "warm")] == [3]
    assert_same_bits(tmp_path / "long", tmp_path / "warm")
    assert_same_bits(tmp_path / "long", tmp_path / "earlier")


def test_warm_starts_that_cannot_be(tmp_path: Path) -> None:
    run_in_process(tmp_path / "start", **SMALL)
    for settings, words in (
        ({**SMALL, "warm_start": f"{tmp_path / 'start'}@2"}, "keep-models"),
        ({**SMALL, "warm_start": str(tmp_path / "start")}, "raise rounds"),
        (
            {**SMALL, "rounds": 9, "model": "mlp", "warm_start": str(tmp_path / "start")},
            "another model",
        ),
        ({**SMALL, "warm_start": str(tmp_path / "nowhere")}, "there is no run in"),
        ({**SMALL, "warm_start": f"{tmp_path / 'start'}@x"}, "whole number"),
    ):
        with pytest.raises(FedmirageError, match=words):
            run_in_process(tmp_path / "new", **settings)
        assert lines(tmp_path / "new", "summary")[-1]["status"] == "failed"


def test_validation_picks_the_best_model_and_stops(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 30}, validation=0.2, patience=2, lr=0.5)
    rounds, (summary,) = lines(tmp_path), lines(tmp_path, "summary")
    assert all(line["validation"]["loss"] > 0 for line in rounds)
    best = min(rounds, key=lambda line: line["validation"]["loss"])
    assert summary["best_round"] == best["round"]
    assert len(rounds) < 30
    assert summary["stopped_early"]
    assert (tmp_path / "best.safetensors").exists()
    trained = {client["partition"]: client["examples"] for client in rounds[0]["clients"]}
    run_in_process(tmp_path / "all", **{**SMALL, "rounds": 1})
    whole = {
        client["partition"]: client["examples"] for client in lines(tmp_path / "all")[0]["clients"]
    }
    assert all(trained[partition] < whole[partition] for partition in whole)


def test_local_models_and_their_average_are_scored_by_name(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1}, local_evaluation=True)
    (line,) = lines(tmp_path)
    assert 0 <= line["evaluation"]["local_model.on_test_shard.by_examples.accuracy"] <= 1
    average = line["evaluation"]["average_of_local_models.on_test.by_examples.accuracy"]
    assert (
        average == line["accuracy"]
    )  # with FedAvg and everybody taking part, that average is the global model


@pytest.mark.parametrize("model", ["simple-cnn", "lenet-bn"])
@pytest.mark.parametrize("samples", [1, 3])
def test_a_client_with_few_samples_survives(tmp_path: Path, model: str, samples: int) -> None:
    run_in_process(
        tmp_path,
        **{**SMALL, "rounds": 2},
        model=model,
        partition=f"classes(per_client=1, samples={samples})",
    )
    last = lines(tmp_path)[-1]
    assert last["refused"] == []
    assert np.isfinite(last["loss"])
    if model == "lenet-bn" and samples == 1:
        assert [client["steps"] for client in last["clients"]] == [0, 0, 0, 0]


def test_epochs_and_steps(tmp_path: Path) -> None:
    run_in_process(tmp_path / "steps", **{**SMALL, "rounds": 1, "local_steps": 7})
    assert {client["steps"] for client in lines(tmp_path / "steps")[0]["clients"]} == {7}
    settings = {key: value for key, value in SMALL.items() if key != "local_steps"}
    run_in_process(tmp_path / "epochs", **{**settings, "rounds": 1}, local_epochs=2)
    for client in lines(tmp_path / "epochs")[0]["clients"]:
        assert client["steps"] == 2 * -(-client["examples"] // 16)


def test_the_learning_rate_decays_by_round(tmp_path: Path) -> None:
    """lr * 0^(t-1) is zero from round 2 on, so nothing moves any more."""
    run_in_process(tmp_path / "one", **{**SMALL, "rounds": 1}, lr_decay=1e-30)
    run_in_process(tmp_path / "two", **{**SMALL, "rounds": 2}, lr_decay=1e-30)
    for one, two in zip(weights(tmp_path / "one"), weights(tmp_path / "two"), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-7)


def test_multi_label(tmp_path: Path) -> None:
    run_in_process(
        tmp_path,
        dataset="digits-multi(train=200, test=50)",
        partition="iid",
        clients=2,
        rounds=2,
        local_steps=3,
    )
    assert "C-F1" in lines(tmp_path)[-1]["evaluation"]
    with pytest.raises(ConfigurationError, match="multi-label"):
        run_in_process(
            tmp_path / "no",
            dataset="digits-multi(train=200, test=50)",
            partition="iid",
            task="single-label",
        )


def test_impossible_partitions_are_refused_before_any_round(tmp_path: Path) -> None:
    for settings in ({"partition": "classes(per_client=11)"}, {"clients": 5000}):
        with pytest.raises(ConfigurationError):
            run_in_process(tmp_path, **{**SMALL, **settings})
        assert lines(tmp_path) == []


def test_node_ids_do_not_sort_like_partitions() -> None:
    """Or the test of partition order would prove nothing."""
    assert sorted(map(node_id, range(4))) != list(map(node_id, range(4)))


def test_steps_are_steps_with_batch_norm_too(tmp_path: Path) -> None:
    """33 samples in batches of 32 leave one over in every pass, which BatchNorm cannot train on;
    seven steps stay seven."""
    settings = {**SMALL, "rounds": 1, "local_steps": 7, "batch_size": 32}
    run_in_process(
        tmp_path, **settings, model="lenet-bn", partition="classes(per_client=3, samples=33)"
    )
    assert {client["steps"] for client in lines(tmp_path)[0]["clients"]} == {7}


def test_a_run_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 30, "validation": 0.2, "patience": 1, "lr": 0.5}
    run_in_process(tmp_path, **settings)
    done, before = len(lines(tmp_path)), weights(tmp_path)
    run_in_process(tmp_path, **settings, resume=str(tmp_path))
    assert len(lines(tmp_path)) == done < 30
    assert all(
        one.tobytes() == other.tobytes()
        for one, other in zip(before, weights(tmp_path), strict=True)
    )


def test_flowers_log_tells_every_round_and_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`flwr run --stream` shows nothing else."""
    with caplog.at_level("INFO", logger="flwr"):
        run_in_process(tmp_path, **SMALL)
    said = [record.getMessage() for record in caplog.records if record.name == "flwr"]
    for line in lines(tmp_path):
        assert any(
            text.startswith(f"round {line['round']}/3: accuracy {line['accuracy']:.4f}")
            for text in said
        )
    (summary,) = lines(tmp_path, "summary")
    score = f"{100 * summary['final_accuracy']:.2f} %"
    assert said[-1] == f"finished after round 3; final accuracy {score}"


@pytest.mark.parametrize(("rounds", "idle"), [(1, {"moon": "it acts from round 2 on"}), (2, None)])
def test_a_method_that_came_too_late_is_named(
    tmp_path: Path, rounds: int, idle: dict[str, str] | None
) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": rounds, "methods": "moon"})
    (summary,) = lines(tmp_path, "summary")
    assert summary.get("idle") == idle


def test_a_run_that_failed_before_a_method_acted_names_it_too(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        run_in_process(tmp_path, kill_in_round(2), **{**SMALL, "methods": "moon"})
    (summary,) = lines(tmp_path, "summary")
    assert (summary["status"], summary["rounds"]) == ("failed", 1)
    assert summary["idle"] == {"moon": "it acts from round 2 on"}


def test_a_run_that_goes_on_longer_keeps_no_caution_about_its_former_length(
    tmp_path: Path,
) -> None:
    settings = {**SMALL, "methods": "moon"}
    run_in_process(tmp_path, **{**settings, "rounds": 1})
    (summary,) = lines(tmp_path, "summary")
    assert "rounds=1, so it never acts" in summary["notes"][0]
    run_in_process(tmp_path, **{**settings, "rounds": 2, "resume": str(tmp_path)})
    (summary,) = lines(tmp_path, "summary")
    assert summary["status"] == "finished"
    assert "notes" not in summary
    assert "idle" not in summary
    assert lines(tmp_path, "config")[0]["rounds"] == 2
