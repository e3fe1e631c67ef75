"""Downloads from the hub, with a stand-in for the hub: no test uses the network."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmirage.common.data.files import hub
from fedmirage.common.data.loading import load
from fedmirage.common.errors import DataError
from tests.support.files import labels, pictures, png


class FakeHub:
    """Stands in for what flwr-datasets returns."""

    asked: list[dict[str, Any]]

    def __init__(self, **wanted: Any) -> None:
        self.asked.append(wanted)

    def load_split(self, split: str) -> Any:
        from datasets import ClassLabel, Dataset, Features, Image

        assert split in ("train", "valid")
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
