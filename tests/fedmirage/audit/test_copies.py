"""Copies: those that are planted are found, and images that show nobody's are not."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedmirage.audit import copies
from fedmirage.audit.attack import AuditFinding
from fedmirage.audit.attacks_on_outcomes import Copies
from fedmirage.audit.copies import Yardstick, flatten, report
from fedmirage.audit.held_images import HeldImages, find_images
from fedmirage.audit.overheard import Overheard
from fedmirage.client.methods.fedcog.generation import Virtual, synthesise
from fedmirage.common.data.batches import normalise
from tests.support.audits import listen

FEDLGD = "fedlgd(per_class=2, global_per_class=1, steps=1, real_per_class=4, global_steps=1)"
DYNAFED = "dynafed(length=2, segment=1, iterations=2, steps=1, per_class=1, max_loss=2)"


@pytest.fixture(scope="module")
def real() -> tuple[torch.Tensor, torch.Tensor]:
    """Points in two random halves."""
    torch.manual_seed(0)
    return torch.randn(1000, 1, 4, 4), torch.randperm(1000) < 500


def compare(images: torch.Tensor, real: tuple[torch.Tensor, torch.Tensor]) -> AuditFinding:
    pool, inside = real
    yardstick = Yardstick("pixels", flatten, flatten(pool), inside)
    return report([yardstick.compare(HeldImages("images", "here", images))])


def test_images_of_their_own_are_no_copies(real: tuple[torch.Tensor, torch.Tensor]) -> None:
    numbers = compare(torch.randn(100, 1, 4, 4), real).numbers["images, pixels"]
    assert numbers["copies"] == 0
    assert numbers["p"] > 0.05
    low, high = numbers["random_halves"]
    assert low < numbers["ratio"] < high


def test_planted_copies_are_found(real: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Five of a hundred images are training images with a little noise."""
    pool, inside = real
    images = torch.randn(100, 1, 4, 4)
    images[:5] = pool[inside][:5] + 0.05 * torch.randn(5, 1, 4, 4)
    found = compare(images, real)
    numbers = found.numbers["images, pixels"]
    assert numbers["copies"] == 5
    assert numbers["real_copies"] == 0
    assert numbers["p_of_copies"] < 0.001
    assert numbers["smallest"] < 0.2
    assert "5 of 100 are copies by pixels, more than chance explains" in found.says[0]


def test_copies_of_held_out_images_do_not_count(real: tuple[torch.Tensor, torch.Tensor]) -> None:
    pool, inside = real
    assert compare(pool[~inside][:50], real).numbers["images, pixels"]["copies"] == 0


def test_images_drawn_towards_the_training_half_are_told(
    real: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """Between two training images: hardly any copies, but closer to their half on the whole."""
    pool, inside = real
    images = 0.65 * pool[inside][:100] + 0.35 * pool[inside][100:200]
    found = compare(images, real)
    assert found.numbers["images, pixels"]["p"] < 0.01
    assert "by pixels they are closer to the trained-on half" in found.says[0]


def test_duplicates_among_real_images_explain_some_copies() -> None:
    """Every image is there twice, so a held-out one is often next to a trained-on one."""
    torch.manual_seed(1)
    pool, inside = torch.randn(300, 1, 4, 4).repeat(2, 1, 1, 1), torch.randperm(600) < 300
    numbers = compare(pool[inside][:20], (pool, inside)).numbers["images, pixels"]
    assert numbers["copies"] > 5
    assert numbers["real_copies"] > 100
    assert numbers["p_of_copies"] > 0.05


def names(seen: Overheard) -> dict[str, HeldImages]:
    return {one.what: one for one in find_images(seen)}


def test_images_of_every_method_are_found(tmp_path: Path) -> None:
    """They are what crossed the wire, or what the server or the clients keep."""
    vhl = "vhl(generator='gaussian', per_class=2, batch=4)"
    seen = listen(Copies(), tmp_path / "vhl", methods=f"{vhl}, fedcog(start=1, samples=6, steps=2)")
    found = names(seen)
    assert found["VHL's virtual images"].images.shape == (20, 1, 8, 8)
    assert found["FedCOG's generated images"].images.shape == (12, 1, 8, 8)
    both = names(listen(Copies(), tmp_path / "two", methods=f"{FEDLGD}, {DYNAFED}", clients=5))
    assert both["FedLGD's global images"].images.shape == (10, 1, 8, 8)
    assert len(both["FedLGD's local images"].images) in range(80, 101)  # some classes lack
    assert both["DynaFed's images"].images.shape == (10, 1, 8, 8)
    assert all(one.images.isfinite().all() for one in [*found.values(), *both.values()])


def test_fedcogs_images_are_those_of_the_last_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Virtual] = []

    def keep(*arguments: Any) -> Virtual | None:
        virtual = synthesise(*arguments)
        made.extend([virtual] if virtual else [])
        return virtual

    monkeypatch.setattr("fedmirage.client.methods.fedcog.client.synthesise", keep)
    seen = listen(Copies(), tmp_path, methods="fedcog(start=1, samples=6, steps=2)")
    then = torch.cat([one.images for one in made[-2:]])
    (again,) = find_images(seen)
    assert len(made) == 2 * 2 + 2
    assert torch.equal(again.images, then)


def test_a_planted_copy_leads_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole attack, on a run of which ten virtual images are training images."""
    seen = listen(Copies(), tmp_path, methods="vhl(generator='gaussian', per_class=4, batch=4)")
    (honest,) = find_images(seen)
    trained = seen.truth.view(0).train[:10]
    data = seen.run.dataset
    planted = normalise(torch.from_numpy(data.train.images[trained]), data.mean, data.std)
    images = torch.cat((planted, honest.images[10:]))
    monkeypatch.setattr(
        copies, "find_images", lambda _: [HeldImages("planted images", "here", images)]
    )
    found = Copies().carry_out(seen)
    numbers = found.numbers["planted images, pixels"]
    assert numbers["copies"] >= 10
    assert numbers["p_of_copies"] < 0.01
    assert numbers["smallest"] < 1e-6
    assert (tmp_path / "audit/closest.png").stat().st_size > 0
