"""FedLGD in runs: `distil` where nothing is global, bytes, schedules, refusals, odd data, hosts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.memory import Memory
from fedmirage.common.methods.fedlgd import REMEMBERED_GLOBAL, REMEMBERED_LOCAL
from fedmirage.common.methods.fedlgd.images import decode
from fedmirage.common.settings.config import configure
from fedmirage.server.record.checkpoint import read_checkpoint
from tests.support.fedlgd import BASE, SHORT, fedlgd
from tests.support.inprocess import node_id, run_in_process
from tests.support.runs import KilledError, assert_same_bits, kill_in_round, lines

# Clients of unlike size that train on their own images alone: FedNova and FedExP have something to
# do beside it.
NOTHING_GLOBAL = {"train_on_global": False, "contrast_weight": 0, "times": 0}


def distil() -> str:
    same = {key: SHORT[key] for key in ("per_class", "steps", "real_per_class")}
    return f"distil({', '.join(f'{key}={value!r}' for key, value in same.items())})"


def remembered(folder: Path, client: int, key: str) -> list[np.ndarray]:
    state = read_checkpoint(folder / "checkpoint.safetensors")
    path = folder / "memory" / state.token / f"client-{client:05d}"
    found = Memory(path, state.round + 1).get(key)
    assert found is not None
    return found


def notes(folder: Path) -> str:
    return " / ".join(note["text"] for note in lines(folder, "note"))


# The limit


def test_without_anything_global_it_is_distil_bit_for_bit(tmp_path: Path) -> None:
    """The same images from the same cache; no byte more goes down."""
    uniform = {**BASE, "weighting": "uniform"}
    run_in_process(tmp_path / "distil", **uniform, methods=distil())
    run_in_process(tmp_path / "fedlgd", **uniform, methods=fedlgd(**NOTHING_GLOBAL))
    assert_same_bits(tmp_path / "distil", tmp_path / "fedlgd")
    ours, theirs = (
        [line["bytes_down"] for line in lines(tmp_path / name)] for name in ("fedlgd", "distil")
    )
    assert ours == theirs


def test_the_initial_images_are_made_once_for_both(tmp_path: Path) -> None:
    settings = {**BASE, "rounds": 1, "seed": 77}
    run_in_process(tmp_path / "distil", **settings, methods=distil())
    run_in_process(tmp_path / "fedlgd", **settings, methods=fedlgd())
    assert "by earlier work" not in notes(tmp_path / "distil")
    assert "4 of 4 clients done, 4 by earlier work" in notes(tmp_path / "fedlgd")


# What travels


def test_uploads_are_those_of_fedavg(tmp_path: Path) -> None:
    run_in_process(tmp_path / "fedavg", **BASE)
    run_in_process(tmp_path / "fedlgd", **BASE, methods=fedlgd())
    ours, theirs = (
        [line["bytes_up"] for line in lines(tmp_path / name)] for name in ("fedlgd", "fedavg")
    )
    assert ours == theirs


@pytest.mark.parametrize(("precision", "width"), [("half", 2), ("byte", 1), ("single", 4)])
def test_the_images_go_down_when_they_are_new(tmp_path: Path, precision: str, width: int) -> None:
    """Rounds 1 and 3 are distillation rounds: rounds 1, 2 and 4 bring other images than before.

    Beside the pixels there are labels of 2 bytes each, and a header of 128 bytes per array; bytes
    have two numbers for the only channel.
    """
    settings = {**BASE, "rounds": 5}
    run_in_process(tmp_path / "fedavg", **settings)
    run_in_process(tmp_path / "fedlgd", **settings, methods=fedlgd(precision=precision, times=1))
    ours, theirs = (
        [line["bytes_down"] for line in lines(tmp_path / name)] for name in ("fedlgd", "fedavg")
    )
    digest = 128 + 32
    more = [(a - b) / BASE["clients"] - digest for a, b in zip(ours, theirs, strict=True)]
    pixels = 10 * 8 * 8 * width + 128
    scale = 2 * (128 + 4) if precision == "byte" else 0
    brought = pixels + scale + 10 * 2 + 128
    assert more == [brought, brought, 0, brought, 0]


@pytest.mark.parametrize("precision", ["half", "byte"])
def test_clients_and_server_hold_the_same_images(tmp_path: Path, precision: str) -> None:
    """Half of the clients take part; in the last round nothing is learned."""
    settings = {**BASE, "participation": 0.5, "rounds": 4}
    run_in_process(tmp_path, **settings, methods=fedlgd(precision=precision, times=1))
    ours = decode(read_checkpoint(tmp_path / "checkpoint.safetensors").strategy["fedlgd.images"])
    for client in lines(tmp_path)[-1]["clients"]:
        *theirs, labels = remembered(tmp_path, client["partition"], REMEMBERED_GLOBAL)
        assert decode(theirs).tobytes() == ours.tobytes()
        assert labels.tolist() == list(range(10))


# Rounds


def test_a_run_says_what_it_does(tmp_path: Path) -> None:
    """Rounds 1 and 3 distil, and only round 3 refreshes; contrast is in the others."""
    run_in_process(
        tmp_path,
        **{**BASE, "rounds": 4},
        methods=fedlgd(),
        save_images=True,
        diagnostics=True,
    )
    found = lines(tmp_path)
    assert [set(line["train"]) for line in found] == [
        {"task"},
        {"task", "global_contrast"},
        {"task"},
        {"task", "global_contrast"},
    ]
    learned = ["fedlgd.distance" in line["methods"] for line in found]
    refreshed = ["fedlgd.refresh_loss" in line["methods"] for line in found]
    alone = ["fedlgd.global_alone.accuracy" in line["evaluation"] for line in found]
    assert learned == alone == [True, False, True, False]
    assert refreshed == [False, False, True, False]
    assert found[0]["methods"]["fedlgd.rows"] == 8 + 10
    pictures = sorted(
        path.relative_to(tmp_path / "images").as_posix()
        for path in (tmp_path / "images").rglob("*.png")
    )
    names = ["client-00000-fedlgd.png", "client-00003-fedlgd.png", "global.png"]
    for number in (1, 3):
        assert {f"round-{number:05d}/{name}" for name in names} <= set(pictures)
    assert not any("round-00002" in picture for picture in pictures)


def test_local_images_change_in_later_distillation_rounds_only(tmp_path: Path) -> None:
    """The images after round 2 are those of the initial distillation; round 3 refreshes them."""
    found = {}
    for rounds in (1, 2, 3, 4):
        folder = tmp_path / str(rounds)
        run_in_process(folder, **{**BASE, "rounds": rounds}, methods=fedlgd())
        found[rounds] = remembered(folder, 0, REMEMBERED_LOCAL)[0].tobytes()
    assert found[1] == found[2] != found[3] == found[4]


def test_a_round_with_lost_clients_learns_nothing_and_says_so(tmp_path: Path) -> None:
    """Three of four clients are silent in round 3: the model goes on, its images do not."""
    silent = [node_id(partition) for partition in (1, 2, 3)]

    def lose(node: int, reply: Any) -> Any:
        return None if node in silent and reply.metadata.group_id == "3" else reply

    settings = {**BASE, "rounds": 3, "round_timeout": 0.2}
    run_in_process(tmp_path, lose, **settings, methods=fedlgd(min_participants=3))
    first, _, third = lines(tmp_path)
    assert len(third["clients"]) == 1
    assert "fedlgd.distance" in first["methods"]
    assert "fedlgd.distance" not in third["methods"]
    assert "to match an average of 1 clients could reveal their data" in notes(tmp_path)


def test_a_run_that_is_killed_continues_with_the_same_bits(tmp_path: Path) -> None:
    """Round 3 is a distillation round: its refresh begins again from what round 2 left."""
    settings = {**BASE, "rounds": 4, "methods": fedlgd()}
    run_in_process(tmp_path / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill_in_round(3), **settings)
    run_in_process(tmp_path / "cut", **settings, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    for name in ("fedlgd.images", "fedlgd.handout.holders"):
        whole, cut = (
            read_checkpoint(tmp_path / run / "checkpoint.safetensors").strategy[name]
            for run in ("whole", "cut")
        )
        assert all(map(np.array_equal, whole, cut))
    assert (
        remembered(tmp_path / "whole", 2, REMEMBERED_LOCAL)[0].tobytes()
        == remembered(tmp_path / "cut", 2, REMEMBERED_LOCAL)[0].tobytes()
    )


def test_a_warm_start_begins_with_its_own_images(tmp_path: Path) -> None:
    """The parent has another number of images per class, and of global ones."""
    run_in_process(tmp_path / "parent", **{**BASE, "rounds": 1}, methods=fedlgd())
    more = {**BASE, "rounds": 3, "warm_start": str(tmp_path / "parent")}
    methods = fedlgd(per_class=1, global_per_class=2, distil_from=2)
    run_in_process(tmp_path / "child", **more, methods=methods)
    found = lines(tmp_path / "child")
    assert ["fedlgd.distance" in line["methods"] for line in found] == [True, False]
    assert [line["methods"]["fedlgd.local_images"] for line in found] == [2, 2]
    assert len(remembered(tmp_path / "child", 0, REMEMBERED_GLOBAL)[0]) == 20


# Controls and options

UNLIKE = {**BASE, "rounds": 4, "partition": "dirichlet(alpha=0.3, min_size=4)"}


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to which others are compared."""
    folder = tmp_path_factory.mktemp("default")
    run_in_process(folder, **UNLIKE, methods=fedlgd())
    return folder


@pytest.mark.parametrize(
    "other",
    [
        {"source": "noise"},
        {"source": "permuted"},
        {"distance": "squared"},
        {"distance": "cosine"},
        {"contrast": "mmd"},
        {"contrast_weight": 1.0},
        {"train_on_global": False},
        {"use_global_from": 2},
        {"refresh_steps": 0},
        {"global_steps": 0},
        {"precision": "byte"},
        {"client_weights": "examples"},
    ],
    ids=str,
)
def test_every_option_counts(tmp_path: Path, default: Path, other: dict[str, Any]) -> None:
    run_in_process(tmp_path, **UNLIKE, methods=fedlgd(**other))
    with pytest.raises(AssertionError):
        assert_same_bits(default, tmp_path)


def test_frozen_noise_is_the_noise_that_learning_starts_from(tmp_path: Path) -> None:
    """Round 1 is the same in both, because it is the first one that learns."""
    run_in_process(tmp_path / "noise", **{**BASE, "rounds": 1}, methods=fedlgd(source="noise"))
    run_in_process(tmp_path / "learned", **{**BASE, "rounds": 1}, methods=fedlgd())
    assert_same_bits(tmp_path / "noise", tmp_path / "learned")
    noise, learned = (
        decode(
            read_checkpoint(tmp_path / name / "checkpoint.safetensors").strategy["fedlgd.images"]
        )
        for name in ("noise", "learned")
    )
    assert noise.std() == pytest.approx(1, abs=0.1)
    assert not np.array_equal(noise, learned)


# Odd data


@pytest.mark.parametrize(
    "settings",
    [
        {"dataset": "digits(limit=60, size=9, channels=3)", "model": "convnet(width=2, depth=2)"},
        {"dataset": "digits(limit=60, size=8)", "model": "convnet(width=2, depth=1, norm='batch')"},
    ],
    ids=["colour and an odd size", "batch norm"],
)
def test_shapes_and_norms(tmp_path: Path, settings: dict[str, Any]) -> None:
    run_in_process(tmp_path, **{**BASE, **settings, "rounds": 3}, methods=fedlgd())
    last = lines(tmp_path)[-1]
    assert last["methods"]["fedlgd.distance"] > 0
    assert np.isfinite(last["loss"])


def test_absent_classes_and_few_images(tmp_path: Path) -> None:
    """Clients of two classes with a few images each have at most that many virtual ones.

    G has all ten classes, and every client trains on it.
    """
    run_in_process(tmp_path, **BASE, methods=fedlgd(per_class=50))
    for client in lines(tmp_path)[-1]["clients"]:
        images, labels = remembered(tmp_path, client["partition"], REMEMBERED_LOCAL)
        assert set(labels.tolist()) < set(range(10))
        assert len(images) < 50
        assert client["examples"] == len(images) + 10


# Beside others


@pytest.mark.parametrize("host", ["fedprox(mu=0.1)", "scaffold", "fednova", "fedavgm", "moon"])
def test_on_top_of_other_methods(tmp_path: Path, host: str) -> None:
    """The distance falls or stays, and every term is there, in either order."""
    for number, methods in enumerate((f"{host}, {fedlgd()}", f"{fedlgd()}, {host}")):
        run_in_process(tmp_path / str(number), **{**BASE, "rounds": 4}, methods=methods)
        *_, third, last = lines(tmp_path / str(number))
        assert "fedlgd.distance" in third["methods"]
        assert "global_contrast" in last["train"]


def test_left_of_a_server_rule_it_reads_the_plain_average(tmp_path: Path) -> None:
    """FedAdam's step has almost the same length in every weight; the average has not.

    The clients' first round is the same in both orders, but what is matched is not.
    """
    found = []
    for number, methods in enumerate((f"{fedlgd()}, fedadam", f"fedadam, {fedlgd()}", fedlgd())):
        run_in_process(tmp_path / str(number), **{**BASE, "rounds": 1}, methods=methods)
        found.append(lines(tmp_path / str(number))[0]["methods"]["fedlgd.distance_before"])
    assert found[0] == found[2] != found[1]


def test_under_dynafed_it_starts_from_the_repaired_model(tmp_path: Path) -> None:
    """Both act: the average is matched before it is repaired, and the repaired model is sent."""
    dynafed = (
        "dynafed(length=1, segment=1, iterations=2, steps=1, per_class=1, epochs=1, lr=0.01,"
        " max_loss=100, min_participants=1)"
    )
    run_in_process(tmp_path, **{**BASE, "rounds": 3}, methods=f"{fedlgd()}, {dynafed}")
    third = lines(tmp_path)[2]["methods"]
    assert third["dynafed.repaired"] == 1
    assert third["fedlgd.distance"] > 0
    with pytest.raises(ConfigurationError, match="write fedlgd left of dynafed"):
        configure({**BASE, "methods": f"{dynafed}, {fedlgd()}"})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"methods": "fedlgd(min_participants=5)", "clients": 4},
            r"clients=4 with participation=1 gives 4 per round; raise one of them",
        ),
        ({"methods": "distil, fedlgd"}, "distil and fedlgd each replace the clients' data"),
        ({"methods": "fedper, fedlgd"}, "fedlgd needs the whole model, but fedper shares only"),
        (
            {"methods": "fedlgd", "weighting": "examples"},
            "fedlgd requires weighting='uniform', not weighting='examples'",
        ),
        (
            {"methods": "fedlgd(client_weights='examples')", "weighting": "uniform"},
            "fedlgd requires weighting='examples', not weighting='uniform'",
        ),
        ({"methods": "fedlgd(lam=1.0)"}, "is now 'contrast_weight'"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configure(settings)


def test_too_few_clients_are_no_problem_where_nothing_is_learned() -> None:
    configure({"methods": "fedlgd(source='noise')", "clients": 2})
    configure({"methods": "fedlgd(global_steps=0)", "clients": 2})


def test_a_run_outside_the_schedule_is_cautioned() -> None:
    late = {"methods": "fedlgd", "warm_start": "runs/x@60", "rounds": 70}
    (caution,) = [text for text in configure(late).cautions if "they stay noise" in text]
    assert "from round 1 to round 51, but this run has rounds 61 to 70" in caution
    assert "write distil_from=61" in caution
    assert not configure({**late, "methods": "fedlgd(distil_from=61)"}).cautions


def test_under_secure_aggregation_the_images_are_close_to_the_plain_ones(tmp_path: Path) -> None:
    """g is a small difference, and sums are rounded: pixels of size 1 agree to three digits."""
    settings = {**BASE, "rounds": 3, "methods": fedlgd(precision="single", gap=1)}
    run_in_process(tmp_path / "plain", **settings)
    run_in_process(tmp_path / "secure", **settings, secagg="on")
    plain, secure = (
        decode(
            read_checkpoint(tmp_path / name / "checkpoint.safetensors").strategy["fedlgd.images"]
        )
        for name in ("plain", "secure")
    )
    assert np.abs(plain).max() > 1
    np.testing.assert_allclose(secure, plain, atol=1e-3)
    assert lines(tmp_path / "secure")[-1]["methods"]["fedlgd.distance"] == pytest.approx(
        lines(tmp_path / "plain")[-1]["methods"]["fedlgd.distance"], abs=1e-3
    )
