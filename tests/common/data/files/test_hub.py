"""Downloads from the hub, with a stand-in for the hub: no test uses the network."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.client.build import deal_data
from fedmirage.common.data.files import hub
from fedmirage.common.data.loading import load
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.methods.vhl.sets import borrow
from fedmirage.common.settings.config import configure
from tests.support.files import labels, pictures, png


class FakeHub:
    """Stands in for what flwr-datasets returns."""

    asked: list[dict[str, Any]]

    def __init__(self, **wanted: Any) -> None:
        self.asked.append(wanted)

    def load_split(self, split: str) -> Any:
        from datasets import ClassLabel, Dataset, Features, Image

        if split not in ("train", "valid"):
            raise ValueError(
                f"The split {split} is not present in the dataset's splits: train, valid"
            )
        features = Features(
            {
                "image": Image(),
                "label": ClassLabel(names=[f"n{number:08}" for number in range(200)]),
            }
        )
        cells = [{"bytes": png(pixels), "path": None} for pixels in pictures(20, 64, 64, 3)]
        return Dataset.from_dict({"image": cells, "label": labels(20).tolist()}, features=features)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    import flwr_datasets

    FakeHub.asked = []
    monkeypatch.setattr(flwr_datasets, "FederatedDataset", FakeHub)
    return FakeHub.asked


def test_a_download_fills_the_data_folder_once(data: Path, asked: list[dict[str, Any]]) -> None:
    loaded = load("tiny-imagenet", data, download=True)
    assert [wanted["dataset"] for wanted in asked] == ["zh-plus/tiny-imagenet"]
    assert asked[0]["shuffle"] is False
    assert np.array_equal(loaded.test.images, pictures(20, 64, 64, 3).transpose(0, 3, 1, 2))
    assert loaded.classes[7] == "n00000007"
    assert sorted(path.name for path in (data / "tiny-imagenet").iterdir()) == [
        "train.parquet",
        "valid.parquet",
    ]
    assert load("tiny-imagenet", data).fingerprint == loaded.fingerprint
    assert load("tiny-imagenet", data, download=True).fingerprint == loaded.fingerprint
    assert len(asked) == 1


def test_nothing_is_downloaded_unasked(data: Path, asked: list[dict[str, Any]]) -> None:
    with pytest.raises(DataError, match="add --download"):
        load("tiny-imagenet", data)
    assert asked == []


def test_a_failed_download_says_what_to_do(data: Path, asked: list[dict[str, Any]]) -> None:
    with pytest.raises(
        DataError, match=r"svhn could not be downloaded.*ufldl-stanford/svhn.*put train_32x32.mat"
    ):
        load("svhn", data, download=True)
    assert not list(data.rglob("*.parquet"))


def test_a_set_that_the_hub_does_not_have(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "fetch", lambda *rest: pytest.fail("nothing to fetch"))
    with pytest.raises(DataError, match="no copy on the hub is known"):
        load("emnist(split='byclass')", data, download=True)


def test_what_a_set_is_made_from_is_downloaded_under_its_own_name(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []
    monkeypatch.setattr(hub, "fetch", lambda params, home: fetched.append((params.name, home)))
    with pytest.raises(DataError, match=r"mnist \(needed for mnist-domains\)"):
        load("mnist-domains", data, download=True)
    assert fetched == [("mnist", data / "mnist")]


MNIST = "hub(path='ylecun/mnist', label='label', test='valid')"


def test_any_set_of_the_hub_is_fetched_once_by_its_name(
    data: Path, asked: list[dict[str, Any]]
) -> None:
    with pytest.raises(DataError, match=r"is not in .*hub/ylecun--mnist; add --download"):
        load(MNIST, data)
    loaded = load(MNIST, data, download=True)
    assert [(wanted["dataset"], wanted["subset"]) for wanted in asked] == [("ylecun/mnist", None)]
    assert (len(loaded.train), len(loaded.test), loaded.divided) == (20, 20, False)
    assert loaded.classes[7] == "n00000007"
    assert load(MNIST, data).fingerprint == loaded.fingerprint
    assert len(asked) == 1


def test_a_set_of_the_hub_without_a_test_split(data: Path, asked: list[dict[str, Any]]) -> None:
    line = "hub(path='mnist', subset='small', test_share=0.5)"
    loaded = load(line, data, download=True)
    assert asked[0]["subset"] == "small"
    assert loaded.divided
    assert [path.name for path in (data / "hub" / "mnist--small").iterdir()] == ["train.parquet"]


def test_a_split_or_a_column_that_a_set_of_the_hub_does_not_have(
    data: Path, asked: list[dict[str, Any]]
) -> None:
    with pytest.raises(DataError, match=r"hub could not be downloaded.*splits: train, valid"):
        load("hub(path='ylecun/mnist', train='all')", data, download=True)
    with pytest.raises(DataError, match="no column 'img', only image, label; write image="):
        load("hub(path='ylecun/mnist', image='img')", data, download=True)


def test_a_download_without_the_package(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with pytest.raises(DataError, match=r"hub could not be downloaded.*as ylecun/mnist"):
        load(MNIST, data, download=True)


@pytest.mark.parametrize("path", ["../mnist", "/etc/passwd", "a/b/c", "", ".hidden", "a/../b"])
def test_a_path_that_is_no_name_on_the_hub(path: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"dataset: hub\(path=.*: write its name on the hub"
    ):
        load(f"hub(path={path!r})", download=True)
    with pytest.raises(
        ConfigurationError, match=r"dataset: hub\(train=.*: write it as the hub does"
    ):
        load(f"hub(path='mnist', train={path!r})", download=True)


def test_a_node_downloads_no_set_that_only_the_run_names(
    tmp_path: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It uses what its owner has fetched."""
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    settings = {"dataset": MNIST, "download": True, "partition": "iid", "clients": 2}
    config = configure({**settings, "data_dir": str(tmp_path)})
    with pytest.raises(DataError, match="A node never downloads it for a run"):
        deal_data(config)
    vhl = configure({"methods": f'vhl(generator="dataset", dataset="{MNIST}")', **settings})
    with pytest.raises(DataError, match="A node never downloads it for a run"):
        borrow(vhl.method_list[0], vhl, 2)  # type: ignore[arg-type]
    assert asked == []
    load(MNIST, tmp_path, download=True)
    assert [len(part) for part in deal_data(config)[1]] == [10, 10]
