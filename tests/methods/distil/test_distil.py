"""Distil in whole runs: what is trained on, by whom it is shared, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message

from fedmirage.client.methods.distil import cache
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import configure
from fedmirage.server.messages import preparation
from tests.support.inprocess import run_in_process
from tests.support.methods import add_methods
from tests.support.pairs import BASE
from tests.support.runs import KilledError, assert_same_bits, lines, weights

# As many virtual images as there are real ones: clients stay of unlike size.
SMALL = {**BASE, "methods": "distil(per_class=2, steps=4, real_per_class=4)"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found that another test has made; decoded data are."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path / "cache")


def test_without_steps_all_real_images_give_fedavg(tmp_path: Path) -> None:
    """In one step on all of them; their order, by class, changes the last bits only."""
    settings = {**BASE, "batch_size": 100}
    every = "distil(per_class=1000, steps=0, start='real', min_real_per_class=1)"
    run_in_process(tmp_path / "fedavg", **settings)
    run_in_process(tmp_path / "distil", **settings, methods=every)
    for one, other in zip(weights(tmp_path / "fedavg"), weights(tmp_path / "distil"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_clients_train_on_virtual_images_and_weigh_as_many(tmp_path: Path) -> None:
    """Two classes per client, and two images per class."""
    run_in_process(tmp_path, **SMALL)
    for line in lines(tmp_path):
        assert [client["examples"] for client in line["clients"]] == [4] * 4
        assert all(client["distil.loss"] > 0 for client in line["clients"])


def test_a_second_run_finds_the_images_of_the_first(tmp_path: Path) -> None:
    """With another method beside it, and however short the turns were."""
    run_in_process(tmp_path / "first", **SMALL)
    both = f"{SMALL['methods']}, fedprox(mu=0.0)"
    run_in_process(tmp_path / "second", **{**SMALL, "methods": both})
    worked = [
        [client["seconds"] > 0 for client in lines(tmp_path / name, "preparation")[0]["clients"]]
        for name in ("first", "second")
    ]
    assert worked == [[True] * 4, [False] * 4]
    assert "4 by earlier work" in lines(tmp_path / "second", "note")[-1]["text"]
    assert_same_bits(tmp_path / "first", tmp_path / "second")
    run_in_process(tmp_path / "third", **SMALL, seed=1)
    assert all(c["seconds"] for c in lines(tmp_path / "third", "preparation")[0]["clients"])


def test_short_turns_show_progress_and_give_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_process(tmp_path / "whole", **SMALL)
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path / "other")
    monkeypatch.setattr(preparation, "TURN", 0.0)
    run_in_process(tmp_path / "turns", **SMALL)
    texts = [line["text"] for line in lines(tmp_path / "turns", "note")]
    assert texts[:3] == [f"preparing: 0 of 4 clients done, {share} %" for share in (25, 50, 75)]
    assert all(line["progress"] for line in lines(tmp_path / "turns", "note"))
    assert_same_bits(tmp_path / "whole", tmp_path / "turns")


def test_a_run_that_is_killed_while_it_prepares_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_in_process(tmp_path / "whole", **SMALL)
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path / "other")
    monkeypatch.setattr(preparation, "TURN", 0.0)
    seen: list[int] = []

    def kill(node: int, reply: Message) -> Message:
        seen.append(node)
        if len(seen) == 4 + 6:  # four nodes were asked for their names, and had one turn and a half
            raise KilledError
        return reply

    with pytest.raises(KilledError):
        run_in_process(tmp_path / "cut", kill, **SMALL)
    run_in_process(tmp_path / "again", **SMALL)
    first = lines(tmp_path / "again", "note")[0]["text"]
    assert (
        first == "preparing: 0 of 4 clients done, 62 %"
    )  # two made their third step, two their second
    assert_same_bits(tmp_path / "whole", tmp_path / "again")


@pytest.mark.parametrize("deleted", [1, 4])
def test_images_that_were_deleted_are_made_again(tmp_path: Path, deleted: int) -> None:
    """Who lost them is left out once, or, if all did, the round is tried again."""
    seen: list[int] = []

    def delete(node: int, reply: Message) -> Message:
        seen.extend([node] if reply.metadata.group_id == "1" else [])
        if len(seen) == 4:
            seen.append(0)
            for path in list((tmp_path / "cache" / "distilled").iterdir())[:deleted]:
                path.unlink()
        return reply

    run_in_process(tmp_path, delete, **{**SMALL, "rounds": 3})
    counts = [len(line["clients"]) for line in lines(tmp_path)]
    assert counts == ([4, 3, 4] if deleted == 1 else [4, 4, 4])
    failed = lines(tmp_path, "retry") if deleted == 4 else lines(tmp_path)[1]["refused"]
    assert len(failed) == 1
    assert "not finished or were deleted" in failed[0]["reason"]


def test_notes_reach_the_reader_but_not_a_server_that_must_not_know(tmp_path: Path) -> None:
    wanted = {**SMALL, "methods": "distil(per_class=9, steps=1)"}
    run_in_process(tmp_path / "plain", **wanted)
    run_in_process(tmp_path / "secure", **wanted, secagg="on")
    notes = lines(tmp_path / "plain", "summary")[0]["notes"]
    assert notes == [
        "round 1: clients 0 to 3: distil makes fewer than per_class=9 virtual images of 2 of the"
        " classes, which have fewer real ones"
    ]
    assert "notes" not in lines(tmp_path / "secure", "summary")[0]
    assert [line["text"] for line in lines(tmp_path / "secure", "note")] == [
        "preparing: 4 of 4 clients done, 4 by earlier work"
    ]
    for one, other in zip(weights(tmp_path / "plain"), weights(tmp_path / "secure"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_picture_per_client(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL, save_images=True)
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert names == [f"client-{client:05d}-distil.png" for client in range(4)]


def test_two_methods_that_replace_the_data_are_refused() -> None:
    with (
        add_methods(),
        pytest.raises(ConfigurationError, match="distil and stand-in each replace the clients'"),
    ):
        configure({**BASE, "methods": "distil, stand-in"})


def test_multi_label_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="a virtual image is made for one class"):
        run_in_process(tmp_path, **{**SMALL, "dataset": "digits-multi(train=60, test=30)"})


def test_batch_norm_is_cautioned() -> None:
    model = "convnet(width=2, depth=1, norm='batch')"
    (caution,) = configure({**SMALL, "model": model}).cautions
    assert "batch norm does not normalise yet" in caution
    assert configure(SMALL).cautions == []
