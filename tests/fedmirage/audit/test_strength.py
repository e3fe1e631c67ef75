"""The attack is strong where nothing protects, so that a low score means protection."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.audit.attack import AuditFinding
from fedmirage.audit.attacks import Inversion
from tests.support.inverted import listen

NOISE = "local(clip=1, noise=0.01)"  # on every weight, a hundredth of the largest update


def invert(folder: Path, params: dict[str, Any], **settings: Any) -> AuditFinding:
    """Attack ten images of clients that train on one at a time."""
    seen = listen(folder, dataset="digits(limit=300)", rounds=2, **settings)
    return Inversion(**{"restarts": 1, "iterations": 120, **params}).carry_out(seen)


@pytest.fixture(scope="module")
def unprotected(tmp_path_factory: pytest.TempPathFactory) -> AuditFinding:
    return invert(tmp_path_factory.mktemp("unprotected"), {})


def test_dlg_rebuilds_digits(unprotected: AuditFinding) -> None:
    scores = unprotected.numbers["psnr"]
    assert len(scores) == 10
    assert scores[0] > 20
    assert unprotected.numbers["psnr_median"] > 20
    assert unprotected.numbers["ssim_median"] > 0.9


@pytest.mark.parametrize("protection", [{"secagg": "on"}, {"dp": NOISE}], ids=["secagg", "dp"])
def test_protection_takes_eight_decibels(
    protection: dict[str, Any], unprotected: AuditFinding, tmp_path: Path
) -> None:
    found = invert(tmp_path, {}, **protection)
    assert len(found.numbers["psnr"]) == 10
    lost = unprotected.numbers["psnr_median"] - found.numbers["psnr_median"]
    assert lost >= 8, found.says


def test_the_angle_and_total_variation_rebuild_what_rectifiers_saw(tmp_path: Path) -> None:
    params = {"matching": "cosine", "images": 1, "iterations": 250}
    found = invert(tmp_path, params, model="mlp(hidden=64)")
    assert found.numbers["psnr"][0] > 20


def test_unknown_labels_are_searched_with_the_image(tmp_path: Path) -> None:
    found = invert(tmp_path, {"images": 1}, methods="fedper")
    assert found.numbers["psnr"][0] > 20
    assert any("tells of the labels" in sentence for sentence in found.says)


def test_the_scores_are_those_of_the_images_in_the_picture(tmp_path: Path) -> None:
    found = invert(tmp_path, {"images": 1, "iterations": 5})
    assert (tmp_path / "audit" / found.pictures[0].file).stat().st_size > 0
    assert found.numbers["psnr"][0] < 20  # five evaluations rebuild nothing
    assert found.says[0].startswith("Rebuilt 1 image with a median PSNR of")
    assert "restarts" not in found.says[0], "there was but one"
