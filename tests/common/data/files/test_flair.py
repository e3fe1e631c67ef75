"""FLAIR in small: the hub's column layout, several labels per picture, users as clients."""

from pathlib import Path

import numpy as np
import pytest

from fedmirage.common.data.catalogue.cards import NAMES
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.named import split
from fedmirage.common.data.set import DataSet
from fedmirage.common.errors import DataError
from tests.support.files import pictures, write_parquet
from tests.support.inprocess import run_in_process
from tests.support.runs import lines

USERS = ["59769174@N00", "10101046@N06", "77742560@N00"]
LABELS = [["structure", "outdoor"], [], ["plant"], ["animal", "plant", "outdoor"]]


@pytest.fixture
def flair(data: Path) -> Path:
    """Twelve training pictures of three users in two shards, four test pictures of a fourth; named
    as in `apple/flair`."""
    parts = {
        "train-00000-of-00002": USERS * 2,
        "train-00001-of-00002": USERS * 2,
        "test-00000-of-00001": ["9@N00"] * 4,
    }
    parts["val-00000-of-00001"] = ["8@N00"] * 4
    for name, users in parts.items():
        count = len(users)
        columns = {
            "image_id": [f"{name}-{row}" for row in range(count)],
            "user_id": users,
            "labels": [LABELS[row % 4] for row in range(count)],
            "fine_grained_labels": [[f"fine {row}"] for row in range(count)],
        }
        write_parquet(data / f"flair/data/{name}.parquet", pictures(count, 256, 256, 3), columns)
    return data


def loaded(folder: Path) -> DataSet:
    return load("flair(size=16)", folder)


def test_the_layout_of_the_hub(flair: Path) -> None:
    found = loaded(flair)
    assert (len(found.train), len(found.test)) == (12, 4)
    assert found.task == "multi-label"
    subjects = NAMES["subjects"]
    assert found.classes == subjects == tuple(sorted(subjects))
    assert len(subjects) == 17
    assert found.train.images.shape == (12, 3, 16, 16)
    assert [
        [found.classes[label] for label in np.flatnonzero(row)] for row in found.train.labels[:4]
    ] == [sorted(row) for row in LABELS]


def test_users_are_the_natural_partition(flair: Path) -> None:
    train = loaded(flair).train
    assert [part.tolist() for part in split("natural(by='user')", train, 17, 3, 0)] == [
        [1, 4, 7, 10],
        [0, 3, 6, 9],
        [2, 5, 8, 11],
    ]
    two = split("natural", train, 17, 2, 0)
    assert sorted(len(part) for part in two) == [4, 8]


def test_some_users_can_be_drawn(flair: Path) -> None:
    """As FedCOG does with 200 of 51,000 users: one whole user per client, the others unused."""
    train = loaded(flair).train
    draws = [split("natural(drawn=True)", train, 17, 2, seed) for seed in range(8)]
    users = [tuple(int(train.columns["user"][part[0]]) for part in parts) for parts in draws]
    for parts in draws:
        assert [len(part) for part in parts] == [4, 4]
        assert all(len(set(train.columns["user"][part].tolist())) == 1 for part in parts)
    assert all(one != other for one, other in users)
    assert len(set(users)) > 1
    whole = split("natural(drawn=True)", train, 17, 3, 0)
    assert [part.tolist() for part in whole] == [
        part.tolist() for part in split("natural", train, 17, 3, 0)
    ]


def test_fedcog_runs_on_it(flair: Path, tmp_path: Path) -> None:
    run_in_process(
        tmp_path,
        dataset="flair(size=16)",
        data_dir=str(flair),
        partition="natural",
        clients=3,
        rounds=2,
        local_steps=2,
        batch_size=4,
        model="mlp(hidden=8)",
        methods="fedcog(start=2, samples=5, steps=2)",
    )
    last = lines(tmp_path)[-1]
    assert last["train"]["distillation"] >= 0
    assert {"O-F1", "C-F1"} <= set(last["evaluation"])


def test_it_is_missed_with_the_way_to_it(data: Path) -> None:
    with pytest.raises(
        DataError, match=r"flair was not found.*data/train-.*add --download to fetch apple/flair"
    ):
        load("flair", data)
