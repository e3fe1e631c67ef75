"""Nodes that train on a folder of their own, not on a share of a common set."""

import logging
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from fedmirage.common.errors import FedmirageError
from fedmirage.server.run import run
from tests.support.inprocess import node_id
from tests.support.owners import CLOTHES, federation, write_folders, write_set
from tests.support.runs import lines


def arrays(tmp_path: Path, tested: int = 0) -> str:
    """The server's set of 60 samples."""
    return f"npz(path='{write_set(tmp_path / 'server', 60, 9, tested=tested)}', classes=3)"


def counted(tmp_path: Path) -> int:
    """How many samples the server tested on."""
    (summary,) = lines(tmp_path / "run", "summary")
    return int(np.sum(summary["final_evaluation"]["confusion"]))


def examples(tmp_path: Path) -> list[int]:
    return [client["examples"] for client in lines(tmp_path / "run")[-1]["clients"]]


def both(tmp_path: Path) -> list[str | None]:
    return [write_set(tmp_path / "a", 30, 1), write_set(tmp_path / "b", 90, 2)]


def test_each_node_trains_on_all_of_its_own_and_the_server_tests_on_all(tmp_path: Path) -> None:
    run(*federation(tmp_path, arrays(tmp_path), both(tmp_path)))
    assert examples(tmp_path) == [30, 90]
    assert counted(tmp_path) == 60


def test_only_validation_is_held_out(tmp_path: Path) -> None:
    run(*federation(tmp_path, arrays(tmp_path), both(tmp_path), validation=0.1))
    assert examples(tmp_path) == [27, 81]
    assert lines(tmp_path / "run")[-1]["validation"]["clients"] == 2


def test_a_server_whose_files_have_a_test_split_tests_on_that(tmp_path: Path) -> None:
    run(*federation(tmp_path, arrays(tmp_path, tested=15), both(tmp_path)))
    assert counted(tmp_path) == 15


def test_a_set_of_which_some_nodes_get_a_share_keeps_its_held_out_part(tmp_path: Path) -> None:
    own, _ = both(tmp_path)
    run(*federation(tmp_path, arrays(tmp_path), [own, None]))
    assert examples(tmp_path) == [30, 24]  # the second: half of the 48 that are not held out
    assert counted(tmp_path) == 12


def test_a_node_without_data_cannot_join_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would train on what the server tests on."""
    grid, config = federation(tmp_path, arrays(tmp_path), both(tmp_path))
    newcomer = Context(1, 77, {"partition-id": 1, "num-partitions": 2}, RecordDict(), {})

    def intercept(node: int, reply: Message) -> Message:
        if reply.metadata.group_id == "1" and node == node_id(1):  # the last of round 1
            del grid.contexts[node]
            grid.contexts[77] = newcomer
        return reply

    grid.intercept = intercept
    run(grid, config)
    assert [client["partition"] for client in lines(tmp_path / "run")[0]["clients"]] == [0, 1]
    assert [client["partition"] for client in lines(tmp_path / "run")[1]["clients"]] == [0]
    assert (
        "the server tests on its whole set, and this node would train on a share of it"
        in caplog.text
    )


def test_a_run_that_scores_local_models_holds_a_share_out_for_that(tmp_path: Path) -> None:
    run(*federation(tmp_path, arrays(tmp_path), both(tmp_path), local_evaluation=True))
    assert examples(tmp_path) == [24, 72]
    accuracies = [
        client["local_model.on_test_shard.by_examples.accuracy"]
        for client in lines(tmp_path / "run")[-1]["clients"]
    ]
    assert {round(6 * accuracies[0], 6) % 1, round(18 * accuracies[1], 6) % 1} == {0}


def test_a_nodes_own_test_split_is_left_alone_or_scored_on_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths: list[str | None] = [
        write_set(tmp_path / name, 30, seed, tested=7) for seed, name in enumerate("ab")
    ]
    grid, config = federation(tmp_path, arrays(tmp_path), paths, local_evaluation=True)
    with caplog.at_level(logging.INFO, "fedmirage"):
        run(grid, config)
    assert examples(tmp_path) == [30, 30]
    for client in lines(tmp_path / "run")[-1]["clients"]:
        accuracy = client["local_model.on_test_shard.by_examples.accuracy"]
        assert round(7 * accuracy, 6) % 1 == 0
    assert "trains on 30 samples" in caplog.text
    assert "; 7 of its test split only score models" in caplog.text


def test_diagnostics_do_without_a_test_set_on_the_node(tmp_path: Path) -> None:
    run(*federation(tmp_path, arrays(tmp_path), both(tmp_path), diagnostics=True))
    metrics = lines(tmp_path / "run")[-1]["diagnostics"]
    assert "drift" in metrics
    assert not any("on_test" in name for name in metrics)


def test_a_node_whose_images_differ_is_refused(tmp_path: Path) -> None:
    paths: list[str | None] = [
        write_set(tmp_path / "a", 30, 1),
        write_set(tmp_path / "b", 90, 2, side=20),
    ]
    with pytest.raises(
        FedmirageError, match="the shape of its data is '1x20x20', the server's '1x16x16'"
    ):
        run(*federation(tmp_path, arrays(tmp_path), paths))


def write_texts(path: Path, ending: str = "") -> str:
    """Save texts of two kinds, which end alike."""
    rows = [f"{word} {number}{ending},{word}" for word in ("cat", "tea") for number in range(5)]
    path.write_text("text,label\n" + "\n".join(rows))
    return str(path)


def encoded(path: str, encoder: str) -> str:
    """The line of embeddings of texts."""
    return f"embeddings(of=\"texts(path='{path}')\", encoder='tests.support.encoders:{encoder}')"


def test_nodes_encode_texts_of_their_own(tmp_path: Path) -> None:
    server = encoded(write_texts(tmp_path / "server.csv"), "count_letters")
    nodes = [write_texts(tmp_path / f"{one}.csv", one) for one in "ab"]
    run(*federation(tmp_path, server, [*nodes], model="mlp"))
    assert examples(tmp_path) == [10, 10]
    assert counted(tmp_path) == 10


def test_a_node_whose_embeddings_are_wider_is_refused(tmp_path: Path) -> None:
    server = encoded(write_texts(tmp_path / "server.csv"), "by_first_text")
    node = write_texts(tmp_path / "node.csv", "ab")
    with pytest.raises(FedmirageError, match="the shape of its data is '7', the server's '5'"):
        run(*federation(tmp_path, server, [node], model="mlp"))


def test_a_node_without_its_data_says_in_its_own_log_what_it_looked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths: list[str | None] = [write_set(tmp_path / "a", 30, 1), str(tmp_path / "nothing.npz")]
    with (
        caplog.at_level(logging.ERROR, "flwr"),
        pytest.raises(FedmirageError, match="its data cannot be used; its own log says") as error,
    ):
        run(*federation(tmp_path, arrays(tmp_path), paths))
    assert "nothing.npz" in caplog.text
    assert "nothing.npz" not in str(error.value)


def test_several_sets_do_not_say_which_one_a_node_has(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="has 2 sets and does not say which of them it is"):
        run(*federation(tmp_path, "digits(size=16), digits(size=16, limit=200)", [str(tmp_path)]))


def test_folders_of_the_same_names_run(tmp_path: Path) -> None:
    server, *nodes = (write_folders(tmp_path / name, *CLOTHES) for name in "sab")
    run(*federation(tmp_path, f"imagefolder(path='{server}')", list(nodes)))
    assert examples(tmp_path) == [24, 24]
    assert counted(tmp_path) == 24
    assert lines(tmp_path / "run", "config")[0]["resolved"]["class_names"] == list(CLOTHES)


def test_folders_of_other_names_are_refused_and_only_the_node_tells_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = write_folders(tmp_path / "server", *CLOTHES)
    nodes: list[str | None] = [
        write_folders(tmp_path / "a", *CLOTHES),
        write_folders(tmp_path / "b", "bag", "sandal", "trouser", "tshirt"),
    ]
    grid, config = federation(tmp_path, f"imagefolder(path='{server}')", nodes)
    with pytest.raises(FedmirageError) as caught:
        run(grid, config)
    said = str(caught.value)
    assert "its class 0 has another name than the server's, which is 'Tshirt'" in said
    assert "differ in upper and lower case only" in said
    assert "'bag'" not in said
    assert "is 'bag', the server's is 'Tshirt'" in caplog.text


def test_a_node_that_lacks_a_class_is_told_to_name_them_all(tmp_path: Path) -> None:
    server = write_folders(tmp_path / "server", *CLOTHES)
    node = write_folders(tmp_path / "a", *CLOTHES[:-1])
    with pytest.raises(FedmirageError) as caught:
        run(*federation(tmp_path, f"imagefolder(path='{server}')", [node]))
    said = str(caught.value)
    assert "it has 3 classes, the server 4, and its class 3 has another name" in said
    assert "write classes=(...) with the names of all" in said
    (tmp_path / "run" / "results.jsonl").unlink()
    run(*federation(tmp_path, f"imagefolder(path='{server}', classes={CLOTHES})", [node]))
    assert examples(tmp_path) == [18]
