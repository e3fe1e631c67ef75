"""Virtual images on the client's disk: whose they are, what survives, and who may read them."""

import itertools
import logging
import stat
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from fedmirage.client.methods.distil.cache import CacheFile, fingerprint
from fedmirage.client.methods.distil.client import begin_matching, prepare_virtual_set, virtual_set
from fedmirage.client.methods.distil.matching import RealImages
from fedmirage.client.round import LocalClient
from fedmirage.common.errors import FedmirageError
from fedmirage.common.methods.distil import Distil
from fedmirage.common.methods.distil.declaration import Distilling
from tests.support.distil import local_client

LABELS = [0] * 9 + [1] * 7 + [3] * 5
CONVNET = "convnet(width=8, depth=2)"
PARAMS = Distil(per_class=3, steps=6, real_per_class=4)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "distilled"


def work(local: LocalClient, turns: int = 1000, params: Distil = PARAMS) -> float:
    """Work in turns of one step; return the share that is done."""
    done = 0.0
    for _ in range(turns):
        if (done := prepare_virtual_set(params, local, until=0.0).done) == 1:
            break
    return done


def finish(local: LocalClient, params: Distil = PARAMS) -> None:
    assert prepare_virtual_set(params, local, until=time.monotonic() + 600).finished


@pytest.mark.parametrize("memory_format", ["channels_last", "contiguous"])
@pytest.mark.parametrize(
    ("shape", "model"),
    [((1, 6, 6), "mlp(hidden=8)"), ((1, 8, 8), CONVNET), ((3, 7, 9), CONVNET)],
)
def test_turns_give_the_same_bits_as_one_go(
    folder: Path, shape: tuple[int, int, int], model: str, memory_format: str
) -> None:
    """Each turn reads what the last one wrote, as a new process would."""
    local = local_client(LABELS, shape, model=model, memory_format=memory_format)
    finish(local)
    whole = virtual_set(PARAMS, local)
    (path,) = folder.iterdir()
    path.unlink()
    assert work(local, turns=2) == pytest.approx(2 / 6)
    with pytest.raises(FedmirageError, match="not finished or were deleted"):
        virtual_set(PARAMS, local)
    assert work(local, turns=4) == 1
    turns = virtual_set(PARAMS, local)
    assert torch.equal(whole.images, turns.images)
    assert torch.equal(whole.labels, turns.labels)
    assert whole.loss == turns.loss


def test_a_failed_step_is_remembered_across_turns() -> None:
    """A rate at which pixels overflow is halved until they do not, however the work is cut."""
    params = PARAMS.model_copy(update={"pixel_lr": 1e38})
    finish(local_client(LABELS), params)
    entry = CacheFile.of(params, local_client(LABELS))
    whole = entry.load(torch.device("cpu"), torch.channels_last)
    assert whole is not None
    assert whole.setbacks > 1
    assert whole.lr == 1e38 / 2**whole.setbacks
    entry.path.unlink()
    work(local_client(LABELS), params=params)
    turns = entry.load(torch.device("cpu"), torch.channels_last)
    assert turns is not None
    assert torch.equal(whole.images, turns.images)
    notes = prepare_virtual_set(params, local_client(LABELS), 0.0).notes
    assert any(f"undid {whole.setbacks} steps" in note for note in notes)


def test_finished_work_is_not_done_again(folder: Path) -> None:
    finish(local_client(LABELS))
    (path,) = folder.iterdir()
    before = path.stat()
    again = prepare_virtual_set(PARAMS, local_client(LABELS), until=time.monotonic() + 600)
    assert (again.done, again.seconds) == (1.0, 0.0)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_only_the_owner_can_read_them(folder: Path) -> None:
    finish(local_client(LABELS))
    (path,) = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


VARIED: list[dict[str, Any]] = [
    {},
    {"seed": 1},
    {"partition": 1},
    {"labels": LABELS[:-1]},
    {"labels": [1, *LABELS[1:]]},
    {"model": "mlp(hidden=9)"},
    {"threads": 2},
    {"memory_format": "contiguous"},
]


def test_whatever_the_images_depend_on_is_in_the_fingerprint() -> None:
    clients = [local_client(**{"labels": LABELS, **varied}) for varied in VARIED]
    found = [fingerprint(PARAMS, client) for client in clients]
    changes: dict[str, Any] = {
        "per_class": 4,
        "steps": 7,
        "start": "noise",
        "real_per_class": 5,
        "augment": "flip",
        "pixel_lr": 0.5,
        "pixel_momentum": 0.0,
        "min_real_per_class": 3,
    }
    assert set(changes) == set(Distilling.model_fields), "a new parameter needs a line here"
    others = [PARAMS.model_copy(update={name: value}) for name, value in changes.items()]
    found += [fingerprint(params, clients[0]) for params in others]
    assert len(set(found)) == len(found)
    assert fingerprint(PARAMS, local_client(LABELS)) == found[0]


def test_what_the_images_do_not_depend_on_is_not() -> None:
    """Another method with the same distillation, or another learning rate, finds the same file."""

    class Containing(Distilling):
        name: ClassVar[str] = "containing"
        rounds: int = 5

    same = Containing(**PARAMS.model_dump())
    expected = fingerprint(PARAMS, local_client(LABELS))
    assert fingerprint(same, local_client(LABELS)) == expected
    assert fingerprint(PARAMS, local_client(LABELS, lr=0.5, methods="fedprox(mu=1)")) == expected


@pytest.mark.parametrize("change", ["cut", "altered", "foreign"])
def test_a_damaged_file_is_made_anew(
    folder: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    finish(local_client(LABELS))
    whole = virtual_set(PARAMS, local_client(LABELS))
    (path,) = folder.iterdir()
    content = bytearray(path.read_bytes())
    if change == "altered":
        content[-3] ^= 1  # a bit of a tensor
    path.write_bytes({"cut": content[:100], "altered": content, "foreign": b"hello"}[change])
    with caplog.at_level(logging.WARNING), pytest.raises(FedmirageError, match="not finished"):
        virtual_set(PARAMS, local_client(LABELS))
    assert "is damaged" in caplog.text
    finish(local_client(LABELS))
    assert torch.equal(virtual_set(PARAMS, local_client(LABELS)).images, whole.images)


def test_of_two_processes_the_one_that_came_further_counts() -> None:
    local = local_client(LABELS)
    behind = begin_matching(PARAMS, local, RealImages.of(local))
    finish(local)
    entry = CacheFile.of(PARAMS, local)
    entry.save(behind)
    assert entry.steps() == PARAMS.steps
    virtual_set(PARAMS, local)


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDMIRAGE_CACHE", str(tmp_path / "file"))
    with pytest.raises(FedmirageError, match=r"cannot be stored in.*set FEDMIRAGE_CACHE"):
        work(local_client(LABELS), turns=1)


@pytest.mark.parametrize(
    ("start", "shape"), itertools.product(["class_stats", "noise", "real"], [(1, 5, 5), (3, 7, 9)])
)
def test_every_start_shape_and_class_gives_finite_images(
    start: str, shape: tuple[int, int, int]
) -> None:
    """Greyscale and colour, odd sizes, an absent class, one with a single image, a scarce one."""
    labels = [0] * 6 + [1] * 2 + [3]
    params = Distil(per_class=4, steps=5, start=start)
    local = local_client(labels, shape, model="convnet(width=2, depth=1)")
    finish(local, params)
    virtual = virtual_set(params, local)
    assert virtual.images.isfinite().all()
    assert virtual.images.shape == (6, *shape)
    assert virtual.images.dtype == torch.float32
    assert virtual.labels.tolist() == [0] * 4 + [1] * 2
    first = begin_matching(params, local, RealImages.of(local))
    assert not torch.equal(first.images, virtual.images)
