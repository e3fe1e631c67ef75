"""What an update tells, before any attack: the gradients of the very images behind it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedmirage.audit.attacks import Inversion
from fedmirage.audit.inversion.sights import find_victims, infer_labels
from fedmirage.audit.overheard import SUM
from fedmirage.common.wire.payload import SHARED
from tests.support.inverted import distance_of_truth, guess_truth, listen

SENDERS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedper": {},
    "lg-fedavg": {},
    "fedcg(server_steps=1)": {"batch_size": 2},
    "fedmd-cg(server_steps=1)": {"batch_size": 2, "model": "lenet-bn"},
}


@pytest.mark.parametrize("methods", SENDERS)
def test_the_true_images_would_send_what_was_sent(methods: str, tmp_path: Path) -> None:
    size = {"dataset": "digits(limit=300)"} if "md" in methods else {}
    seen = listen(tmp_path, methods=methods, clients=2, **{**size, **SENDERS[methods]})
    victims = list(find_victims(Inversion(), seen))
    assert [victim.partition for victim in victims] == [0, 1]
    for victim in victims:
        assert distance_of_truth(seen, victim) < 1e-5
        assert abs(distance_of_truth(seen, victim, matching="cosine")) < 1e-5
    assert distance_of_truth(seen, swap(victims)) > 1e-2


def swap(victims: list[Any]) -> Any:
    """The second client's update, beside the images of the first."""
    return type(victims[0])(0, victims[1].sights, victims[1].images, victims[1].repeated)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_several_local_steps_are_simulated_exactly(momentum: float, tmp_path: Path) -> None:
    steps = {"local_steps": 3, "batch_size": 2, "momentum": momentum, "weight_decay": 0.01}
    seen = listen(tmp_path, clients=2, lr=0.2, **steps)
    victim = next(find_victims(Inversion(), seen))
    assert victim.images == 6
    assert not victim.repeated
    exact, rough = (
        distance_of_truth(seen, victim, several_steps=how) for how in ("simulate", "mean")
    )
    assert exact < 1e-5 < 1e-3 < rough


def test_a_client_with_one_batch_shows_the_same_images_in_every_round(tmp_path: Path) -> None:
    data = {"dataset": "digits(size=12, limit=15)", "clients": 4}
    seen = listen(tmp_path, **data, rounds=2, batch_size=8, local_steps=2)
    victims = list(find_victims(Inversion(), seen))
    assert all(victim.repeated and len(victim.sights) == 2 for victim in victims)
    assert victims[0].images == seen.rounds[0].received[0].examples
    assert distance_of_truth(seen, victims[0]) < 1e-5  # of both rounds together


def test_without_the_seed_the_true_images_do_not_match(tmp_path: Path) -> None:
    seen = listen(tmp_path, methods="lg-fedavg", clients=2)
    (victim, _) = find_victims(Inversion(private="guess"), seen)
    assert distance_of_truth(seen, victim) > 1e-2


def test_the_bias_of_the_last_layer_tells_the_labels(tmp_path: Path) -> None:
    for batch_size, least in ((1, 1.0), (4, 0.6)):
        seen = listen(tmp_path / str(batch_size), rounds=2, batch_size=batch_size)
        right = known = 0
        for victim in find_victims(Inversion(images=40), seen):
            drawn = torch.Generator().manual_seed(0)
            told = infer_labels(seen.model(), victim, seen.run.shape, drawn)
            assert told is not None
            truth = guess_truth(seen, victim).labels
            counts = [one.bincount(minlength=10) for one in (told, truth)]
            right += int(torch.minimum(*counts).sum())
            known += len(truth)
        assert right >= least * known


def test_under_secure_aggregation_the_server_sees_one_sum(tmp_path: Path) -> None:
    open_runs = listen(tmp_path / "open", weighting="uniform")
    hidden = listen(tmp_path / "hidden", weighting="uniform", secagg="on")
    (reply,) = hidden.rounds[0].received.values()
    assert set(hidden.rounds[0].received) == {SUM}
    assert reply.participants == 5
    replies = open_runs.rounds[0].received
    assert sorted(replies) == [0, 1, 2, 3, 4]
    for place, mean in enumerate(reply.sections[SHARED]):
        single = [one.sections[SHARED][place] for one in replies.values()]
        assert abs(sum(single) / 5 - mean).max() < 1e-6
    (victim,) = find_victims(Inversion(), hidden)
    assert (victim.partition, victim.images) == (SUM, 5)
