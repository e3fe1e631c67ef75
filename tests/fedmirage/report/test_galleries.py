"""Pictures of virtual images: which are chosen, what is said about them, how they get in."""

import base64
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedmirage.common.wire.files import write_arrays
from fedmirage.report.galleries import (
    describe_gallery,
    find_galleries,
    list_files,
    measure_structure,
    show,
    thin,
)
from fedmirage.report.groups import find_groups
from fedmirage.report.sections.images import galleries
from tests.support.comparison import plan_records, write_records


def draw(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4)).save(path)


def test_pictures_are_in_the_order_of_rounds_and_thinned_evenly(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "virtual.png")
    for number in range(1, 11):
        for client in range(5):
            draw(tmp_path / f"images/round-{number:05d}/client-{client:05d}-fedcog.png")
    files = list_files(tmp_path)
    assert len(files) == 51
    assert files[0].name == "virtual.png"
    kept = [path.relative_to(tmp_path / "images").as_posix() for path in thin(files, 8)]
    assert kept[0] == "virtual.png"
    assert kept[-2:] == [
        "round-00010/client-00000-fedcog.png",
        "round-00010/client-00004-fedcog.png",
    ]
    assert len(kept) <= 8
    assert len(thin(files, 1)) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("images/virtual.png", "virtual images that all clients share"),
        ("images/round-00012/global.png", "round 12: global images"),
        ("images/round-00003/client-00004-fedcog.png", "round 3: client 4, fedcog"),
        ("images/client-00001-distil.png", "client 1, distil"),
        (
            "images/round-00003/client-00004-fedcog-steps.png",
            "round 3: client 4, fedcog, one image per class while it was made",
        ),
    ],
)
def test_captions_say_what_is_shown(name: str, said: str) -> None:
    assert describe_gallery(Path(name)) == said


def test_a_picture_is_taken_as_it_is_and_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    draw(tmp_path / "images" / "virtual.png")
    picture = show(tmp_path / "images" / "virtual.png")
    assert picture is not None
    assert (picture.width, picture.height) == (6, 4)
    coded = picture.source.removeprefix("data:image/png;base64,")
    assert base64.b64decode(coded) == (tmp_path / "images" / "virtual.png").read_bytes()
    (tmp_path / "images" / "virtual.png").write_bytes(b"no picture")
    assert show(tmp_path / "images" / "virtual.png") is None


def test_noise_has_no_structure_and_shapes_have(tmp_path: Path) -> None:
    """Pictures are enlarged eight times, as those of runs are."""
    noise = np.random.default_rng(0).integers(0, 256, (24, 24), dtype=np.uint8)
    shapes = np.add.outer(np.arange(24), np.arange(24)).astype(np.uint8)
    found = [
        measure_structure(Image.fromarray(one).resize((192, 192), Image.Resampling.NEAREST))
        for one in (noise, shapes)
    ]
    assert found[0] < 0.1
    assert found[1] > 0.8
    assert measure_structure(Image.new("L", (6, 4))) == 0


def test_dynafeds_set_is_drawn_with_its_history(tmp_path: Path) -> None:
    """Two snapshots of three images of 28 x 28, each enlarged three times."""
    images = np.random.default_rng(0).normal(size=(3, 1, 28, 28)).astype(np.float32)
    path = tmp_path / "dynafed" / "round-00004.safetensors"
    path.parent.mkdir()
    write_arrays(path, {"images@000000": images, "images@000020": images, "images": images})
    assert list_files(tmp_path) == [path]
    picture = show(path)
    assert picture is not None
    assert "round 4" in picture.caption
    assert picture.height == 2 * (3 * 28 + 2)


def test_galleries_have_texts_for_who_does_not_see_them(tmp_path: Path) -> None:
    write_records(plan_records(tmp_path))
    (group,) = find_groups([tmp_path]).groups
    assert "no run here did" in galleries(group).html
    for client in range(30):
        draw(tmp_path / "vhl-width-8-seed1" / f"images/client-{client:05d}-distil.png")
    (group,) = find_groups([tmp_path]).groups
    (gallery,) = find_galleries(group)
    assert (gallery.name, gallery.seed, gallery.there) == ("vhl(width=8)", 1, 30)
    html = galleries(group).html
    assert 'alt="vhl, seed 1, client 0, distil"' in html
    assert "12 of 30 pictures" in html
    assert html.count("<img ") == 12
