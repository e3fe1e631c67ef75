"""FedMD-CG in whole runs: LG-FedAvg without its losses, what crosses the wire, what survives."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.compat.common import recorddict_compat as compat
from rich.console import Console

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import LOCAL_MODEL, Memory
from fedmirage.common.methods.fedmd_cg import FedMdCg
from fedmirage.common.run import blueprint
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import Manifest
from fedmirage.common.wire.payload import Arrays, Sections, decode, unpack
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.show.catalogue import show_methods
from tests.support.inprocess import node_id, run_in_process
from tests.support.rules import last_local_models, named
from tests.support.runs import SMALL, KilledError, kill_in_round, lines, weights, without_times

TINY = "fedmd-cg(server_steps=2, noise_dim=4)"
BASE: dict[str, Any] = {
    **SMALL,
    "rounds": 2,
    "partition": "classes(per_client=3)",
    "model": "lenet-bn",
    "server_threads": 1,
}
WEIGHTS = [name for name in FedMdCg.model_fields if name.endswith("_weight")]
NOTHING = ", ".join(f"{name}=0.0" for name in WEIGHTS)


def remembered(folder: Path, partition: int, key: str, before: int) -> Arrays:
    token = read_checkpoint(folder / "checkpoint.safetensors").token
    found = Memory(folder / "memory" / token / f"client-{partition:05d}", before).get(key)
    assert found is not None
    return found


def test_without_its_losses_it_is_lg_fedavg_bit_for_bit(tmp_path: Path) -> None:
    """What is left is a generator that nobody looks at: the classifiers are averaged, and every
    client trains its own extractor."""
    config = run_in_process(tmp_path / "lg", **BASE, methods="lg-fedavg")
    line = f"fedmd-cg({NOTHING}, aggregation='ave')"
    run_in_process(tmp_path / "pair", **BASE, methods=line)
    classifiers = weights(tmp_path / "lg")
    both = zip(classifiers, weights(tmp_path / "pair")[: len(classifiers)], strict=True)
    assert all(one.tobytes() == other.tobytes() for one, other in both)
    names = named(config)
    for one, other in zip(
        last_local_models(tmp_path / "lg")[0], last_local_models(tmp_path / "pair")[0], strict=True
    ):
        assert [array.tobytes() for array in one] == [
            array.tobytes() for array in other[: len(names)]
        ]
    assert len(WEIGHTS) == 6


def test_variants_are_bundles_in_which_written_keys_win() -> None:
    assert FedMdCg() == FedMdCg(variant="clean")
    code, paper = FedMdCg(variant="code"), FedMdCg(variant="paper")
    assert (code.noise, code.ramp_power, code.feature_weight) == ("uniform", 3, 0.1)
    assert (code.crossed_loss, code.generator_batches, code.same_noise) == (
        "product",
        "cached",
        False,
    )
    assert (paper.divergence, paper.temperature, paper.distance) == ("reverse", 1, "norm")
    assert FedMdCg(variant="code", noise="normal").noise == "normal"
    assert FedMdCg(variant="paper", temperature=4.0).temperature == 4


def test_ave_star_has_no_losses_on_logits() -> None:
    star = FedMdCg(aggregation="ave_star")
    assert (star.classification_weight, star.feature_weight, star.logit_weight) == (0, 1, 0)
    with pytest.raises(ConfigurationError, match=r"'ave_star' has no logit_weight; leave"):
        configure({"methods": "fedmd-cg(aggregation='ave_star', logit_weight=1.0)"})


def test_the_ramp_begins_at_nothing() -> None:
    """Round r counts from 1: ((r - 1) / R)^d, or with the code's ramp ((r - 1) / (R - 1))^3."""
    assert [FedMdCg().ramp(r, 4) for r in (1, 2, 4)] == [0, 0.25, 0.75]
    assert [FedMdCg(variant="code").ramp(r, 5) for r in (1, 3, 5)] == [0, 0.125, 1]
    assert [FedMdCg(ramp_power=0.0).ramp(r, 4) for r in (1, 2, 4)] == [0, 1, 1]
    assert FedMdCg(variant="code").ramp(1, 1) == 0


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"methods": "fedmd-cg, scaffold"},
            "scaffold needs the whole model, but fedmd-cg shares only: classifier and generator",
        ),
        ({"methods": "fedcog, fedmd-cg"}, "fedcog needs the whole model, but fedmd-cg shares only"),
        ({"methods": "fedmd-cg, fedavgm"}, "write fedavgm left of fedmd-cg"),
        ({"methods": "fedper, fedmd-cg"}, "each decide what is shared; keep one"),
        (
            {"methods": "fedmd-cg", "secagg": "on"},
            r"fedmd-cg needs each client's generator and classifier one by one, but the server sees"
            r" only sums; write fedmd-cg\(aggregation='ave'\)",
        ),
        ({"methods": "fedmd-cg(aggregation='kd')", "secagg": "on"}, "needs each client's"),
        (
            {"methods": "fedmd-cg", "dp": "central(clip=1.0, noise=1.0)"},
            "dp: fedmd-cg sends 'label-counts' beside the model",
        ),
        (
            {"methods": "fedmd-cg(aggregation='ave')", "dp": "central(clip=1.0, noise=1.0)"},
            "fedmd-cg sends 'label-counts' beside the model",
        ),
    ],
)
def test_refusals_say_why(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure(settings)


def test_ave_and_ave_star_need_sums_only() -> None:
    for aggregation in ("ave", "ave_star"):
        configure({"methods": f"fedmd-cg(aggregation='{aggregation}')", "secagg": "on"})


def test_what_is_shared_is_smaller_by_the_extractor_and_larger_by_the_generator() -> None:
    """FedMD-CG's table for Fashion-MNIST: 8,906 + 236,928 weights, 17.8 times FedAvg's 13,802;
    beside them the 1,536 running statistics of the generator's batch norm."""
    config = configure({"model": "lenet-bn", "methods": "fedmd-cg"})
    whole = Manifest.of(blueprint(config, (1, 28, 28), 10))
    shared = whole.only(("classifier", "generator"))
    assert shared.weights.size == 245_834
    assert shared.statistics.size == 1_536
    assert round(shared.weights.size / whole.only(("features", "classifier")).weights.size, 1) == (
        17.8
    )


def sections_of(message: Message, what: str) -> Sections:
    """The sections of a message as they cross the wire, decoded from its bytes."""
    if what == "up":
        result = compat.recorddict_to_fitres(message.content, True)
        return unpack(decode(result.parameters.tensors), str(result.metrics["layout"]))
    ins = compat.recorddict_to_fitins(message.content, True)
    return unpack(decode(ins.parameters.tensors), str(ins.config["layout"]))


def test_no_array_of_an_extractor_is_in_any_message(tmp_path: Path) -> None:
    """Every reply is taken apart on its way. It holds classifier, generator and ten counts; none of
    its arrays begins with the bytes of an array of the client's extractor, and no array of an
    extractor lies anywhere in its bytes."""
    seen: dict[int, list[tuple[Sections, bytes]]] = {}

    def intercept(node: int, reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            raw = b"".join(
                bytes(array.data)
                for record in reply.content.array_records.values()
                for array in record.values()
            )
            seen.setdefault(node, []).append((sections_of(reply, "up"), raw))
        return reply

    config = run_in_process(tmp_path, intercept, **BASE, methods=TINY, keep_models="all")
    model = blueprint(config, (1, 28, 28), 10)
    whole = Manifest.of(model)
    shared = whole.only(("classifier", "generator"))
    for partition in range(4):
        for number, (sections, raw) in enumerate(seen[node_id(partition)], start=1):
            own = whole.name(remembered(tmp_path, partition, LOCAL_MODEL, number + 1))
            assert set(sections) == {"shared", "label-counts"}
            assert [array.shape for array in sections["shared"]] == [e.shape for e in shared]
            for entry, array in zip(shared, sections["shared"], strict=True):
                assert own[entry.name].tobytes() == array.tobytes()
                assert array.tobytes() in raw  # so that the search below can find anything
            for name, array in own.items():
                if name.startswith("features."):
                    assert array.tobytes() not in raw
            (counts,) = sections["label-counts"]
            assert counts.sum() == lines(tmp_path)[0]["clients"][partition]["examples"]


def test_bytes_are_those_of_the_pair_and_the_counts(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**BASE, "rounds": 1}, methods="fedmd-cg(server_steps=2)")
    (line,) = lines(tmp_path)
    numbers = 4 * (245_834 + 1_536) + 8 * 10
    headers = 128 * 19  # numpy's, one per array: 4 + 14 of the pair, and the counts
    for direction in ("bytes_up", "bytes_down"):
        assert 4 * numbers < line[direction] <= 4 * (numbers + headers)
    named, _ = read_arrays(tmp_path / "model.safetensors")
    assert {name.partition(".")[0] for name in named} == {"classifier", "generator"}


def test_clients_get_the_distribution_and_nobodys_counts(tmp_path: Path) -> None:
    """Four clients of three classes: 0 to 2, 3 to 5, 6 to 8, and again 9, 0, 1."""
    run_in_process(tmp_path, **BASE, methods=TINY)
    (shares,) = read_checkpoint(tmp_path / "checkpoint.safetensors").strategy["fedmd-cg.shares"]
    assert shares.shape == (10,)
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).all()


def test_the_generator_stays_with_its_client_and_the_classifier_does_not(tmp_path: Path) -> None:
    """With learning rates that move nothing from round 2 on, classifiers of round 2 are those that
    the server sent, and generators and extractors the clients' own of round 1."""
    settings = {**BASE, "methods": TINY, "keep_models": "all", "lr_decay": 1e-30}
    config = run_in_process(tmp_path, **settings)
    whole = Manifest.of(blueprint(config, (1, 28, 28), 10))
    sent, _ = read_arrays(tmp_path / "models" / "round-00001.safetensors")
    for partition in range(4):
        first, second = (
            whole.name(remembered(tmp_path, partition, LOCAL_MODEL, before)) for before in (2, 3)
        )
        for entry in whole:
            if entry.part == "classifier":
                np.testing.assert_array_equal(second[entry.name], sent[entry.name])
            elif entry.part == "features" and entry.trainable:
                np.testing.assert_array_equal(second[entry.name], first[entry.name])
            elif entry.part == "generator" and entry.trainable:
                # Adam moved it by at most lr in each of three steps, from its own last weights.
                assert np.abs(second[entry.name] - first[entry.name]).max() < 4 * 3e-4
                assert np.abs(second[entry.name] - sent[entry.name]).max() > 0


def test_the_optimisers_go_on_over_rounds(tmp_path: Path) -> None:
    """Three steps per round on the clients and two on the server, after two rounds."""
    run_in_process(tmp_path, **BASE, methods=TINY)
    moments = read_checkpoint(tmp_path / "checkpoint.safetensors").strategy["fedmd-cg.moments"]
    assert moments[0].tolist() == [4]
    assert len(moments) == 1 + 2 * (4 + 10)  # m and v of the classifier's and generator's weights
    for partition in range(4):
        moments = remembered(tmp_path, partition, "fedmd-cg.moments", 3)
        assert moments[0].tolist() == [6]
        assert len(moments) == 1 + 2 * 10


@pytest.mark.parametrize("aggregation", ["kdc", "ave"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, aggregation: str) -> None:
    """The pair, p(y), both Adams, extractors and generators are all found again."""
    line = f"fedmd-cg(server_steps=2, aggregation='{aggregation}', moving_average=0.5)"
    settings = {**BASE, "rounds": 3, "participation": 0.75, "methods": line}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    one, other = (
        read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "cut")
    )
    for first, second in (
        (one.shared, other.shared),
        (one.strategy["fedmd-cg.moments"], other.strategy["fedmd-cg.moments"]),
        (one.strategy["fedmd-cg.shares"], other.strategy["fedmd-cg.shares"]),
    ):
        assert [array.tobytes() for array in first] == [array.tobytes() for array in second]
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "cut")


def test_who_joins_late_or_lost_its_memory_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Client 3 is silent in round 1 and joins in round 2; client 0 loses its files after round 2.
    Both begin with the extractor and the generator of the seed, and the others go on."""

    def intercept(node: int, reply: Message) -> Message | None:
        number = reply.metadata.group_id
        if reply.metadata.message_type == "train" and number == "1" and node == node_id(3):
            return None
        if reply.metadata.message_type == "train" and number == "2" and node == node_id(0):
            for folder in (tmp_path / "memory").glob("*/client-00000"):
                shutil.rmtree(folder)
        return reply

    settings = {**BASE, "rounds": 3, "round_timeout": 0.2, "lr": 1e-30}
    run_in_process(tmp_path, intercept, **settings, methods=TINY)
    said = [
        {
            client["partition"]: (
                client.get("fedmd-cg.joined_late"),
                client.get("fedmd-cg.memory_lost"),
            )
            for client in line["clients"]
        }
        for line in lines(tmp_path)
    ]
    assert said[0] == dict.fromkeys((0, 1, 2), (None, None))
    assert said[1] == {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (1, 0)}
    assert said[2] == {0: (0, 1), 1: (0, 0), 2: (0, 0), 3: (0, 0)}
    assert "client 3 starts with the extractor and the generator of the run's seed" in caplog.text
    assert "client 0 starts with" in caplog.text
    assert remembered(tmp_path, 0, "fedmd-cg.moments", 4)[0].tolist() == [3]
    assert remembered(tmp_path, 1, "fedmd-cg.moments", 4)[0].tolist() == [9]


@pytest.mark.parametrize("aggregation", ["ave", "ave_star"])
def test_a_secure_sum_gives_nearly_the_same_pair(tmp_path: Path, aggregation: str) -> None:
    line = f"fedmd-cg(aggregation='{aggregation}', noise_dim=4)"
    run_in_process(tmp_path / "plain", **BASE, methods=line)
    run_in_process(tmp_path / "secure", **BASE, methods=line, secagg="on")
    plain, secure = (
        read_checkpoint(tmp_path / name / "checkpoint.safetensors") for name in ("plain", "secure")
    )
    np.testing.assert_allclose(
        secure.strategy["fedmd-cg.shares"][0], plain.strategy["fedmd-cg.shares"][0], atol=1e-6
    )
    for one, other in zip(plain.shared, secure.shared, strict=True):
        np.testing.assert_allclose(other, one, atol=2e-3)
    moved = max(float(np.abs(array).max()) for array in plain.shared)
    assert moved > 0.1


@pytest.mark.parametrize(
    "line",
    [
        "fedmd-cg(variant='code', server_steps=2)",
        "fedmd-cg(variant='paper', server_steps=2)",
        "fedmd-cg(aggregation='kd', server_steps=2)",
        "fedmd-cg(source='means', server_steps=2)",
        "fedmd-cg(diversity='div0', server_steps=2)",
        "fedmd-cg(diversity='div1', server_steps=2)",
    ],
)
def test_every_variant_runs_and_differs_from_the_default(tmp_path: Path, line: str) -> None:
    run_in_process(tmp_path / "default", **BASE, methods="fedmd-cg(server_steps=2)")
    run_in_process(tmp_path / "other", **BASE, methods=line, diagnostics=True)
    one, other = (weights(tmp_path / name) for name in ("default", "other"))
    assert all(np.isfinite(array).all() for array in other)
    assert any(a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(one, other))  # noqa: B905
    assert lines(tmp_path / "other")[-1]["methods"]["fedmd-cg.generated_loss"] > 0


def test_there_is_no_accuracy_without_a_global_model_but_named_figures(tmp_path: Path) -> None:
    run_in_process(tmp_path, **BASE, methods=TINY, validation=0.2)
    for line in lines(tmp_path):
        assert line["accuracy"] is None
        assert 0 <= line["evaluation"]["local_model.on_test_shard.by_examples.accuracy"] <= 1
        assert 0 <= line["evaluation"]["average_of_local_models.on_test.by_examples.accuracy"] <= 1
        assert line["validation"]["loss"] > 0
    assert lines(tmp_path)[1]["train"].keys() == {
        "task",
        "generated.classification",
        "generated.features",
        "generated.logits",
        "generator.logits",
        "generator.features",
        "generator.classification",
        "generator.diversity",
    }


def test_local_models_are_scored_before_the_server_distils(tmp_path: Path) -> None:
    """In round 1 clients do the same whatever the aggregation, and so both accuracies agree."""
    scores = []
    for aggregation in ("kdc", "ave"):
        line = f"fedmd-cg(aggregation='{aggregation}', noise_dim=4)"
        run_in_process(tmp_path / aggregation, **{**BASE, "rounds": 1}, methods=line)
        scores.append(lines(tmp_path / aggregation)[0]["evaluation"])
    assert scores[0] == scores[1]
    one, other = (weights(tmp_path / name) for name in ("kdc", "ave"))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_client_with_one_sample_trains_nothing_and_counts_nothing(tmp_path: Path) -> None:
    """Batch norm has no variance to divide by. Of 19 samples, four clients get 5, 5, 5 and 4: in
    batches of 4, the last batch of one sample is left out. Of 7 samples, one client gets one."""
    settings = {**BASE, "batch_size": 4, "partition": "iid"}
    for limit, expected in ((19, [5, 5, 5, 4]), (7, [2, 2, 2, 0])):
        out = tmp_path / str(limit)
        run_in_process(out, **{**settings, "dataset": f"digits(limit={limit})"}, methods=TINY)
        for line in lines(out):
            found = [(client["examples"], client["steps"]) for client in line["clients"]]
            assert [examples for examples, _ in found] == expected
            assert all((steps > 0) == (examples > 0) for examples, steps in found)
        assert all(np.isfinite(array).all() for array in weights(out))
    (shares,) = read_checkpoint(out / "checkpoint.safetensors").strategy["fedmd-cg.shares"]
    assert np.allclose(shares * 6, np.rint(shares * 6))  # of six samples, not of seven


def test_the_list_of_methods_says_how_to_run_it_with_secagg(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_methods(Console(width=240))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "fedmd-cg " in line)
    assert "fedmd-cg(aggregation='ave')" in line
    assert "classifier and generator" in line


def test_a_warm_start_goes_on_with_extractors_generators_and_their_optimisers(
    tmp_path: Path,
) -> None:
    """The server's own state begins anew, as with every warm start; clients go on where they were:
    nobody has joined late, and the Adams of the generators count on."""
    settings = {**BASE, "methods": TINY}
    run_in_process(tmp_path / "first", **settings)
    warm = {**settings, "rounds": 3, "warm_start": str(tmp_path / "first")}
    run_in_process(tmp_path / "warm", **warm)
    (line,) = lines(tmp_path / "warm")
    assert [client["fedmd-cg.joined_late"] for client in line["clients"]] == [0] * 4
    for partition in range(4):
        assert remembered(tmp_path / "warm", partition, "fedmd-cg.moments", 4)[0].tolist() == [9]
