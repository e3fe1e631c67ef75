"""Schedules: their values by hand, the short form, what is refused, and what is odd."""

import pytest
import torch

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.settings.config import configure


def rates(schedule: str, rounds: int = 6, lr: float = 1.0) -> list[float]:
    config = configure({"schedule": schedule, "lr": lr, "rounds": rounds})
    return [config.learning_rate(number) for number in range(1, rounds + 1)]


def test_constant_is_the_rate_itself() -> None:
    assert rates("constant", lr=0.3) == [0.3] * 6


def test_exponential_by_hand() -> None:
    assert rates("exponential(factor=0.5)", 4) == [1, 0.5, 0.25, 0.125]


def test_a_step_names_the_first_round_with_the_lower_rate() -> None:
    assert rates("step(at=3, factor=0.25)", 4) == [1, 1, 0.25, 0.25]
    assert rates("step(at=(2, 4), factor=0.5)", 5) == [1, 0.5, 0.5, 0.25, 0.25]
    assert rates("step(at=[2, 4], factor=0.5)", 5) == rates("step(at=(2, 4), factor=0.5)", 5)
    assert rates("step(at=2)", 2) == [1, 0.1]


def test_cosine_by_hand() -> None:
    """Four rounds are at 0, 45, 90 and 135 degrees of the half circle.

    (1 + cos) / 2 is 1, 0.853553, 0.5 and 0.146447; with last=0.2 these are scaled to 0.8 and lifted
    by 0.2.
    """
    assert rates("cosine", 4) == pytest.approx([1, 0.853553, 0.5, 0.146447], abs=1e-6)
    assert rates("cosine(last=0.2)", 4) == pytest.approx([1, 0.882843, 0.6, 0.317157], abs=1e-6)
    assert rates("cosine(last=1)", 4) == [1] * 4


def test_cosine_is_torchs_own() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7, eta_min=0.05)
    expected = []
    for _ in range(7):
        expected.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates("cosine(last=0.1)", 7, 0.5) == pytest.approx(expected, rel=1e-9)


def test_warm_up_rises_in_equal_steps_and_what_falls_begins_after_it() -> None:
    """warmup=3: a quarter, a half and three quarters of the rate, and all of it in round 4."""
    rising = [0.25, 0.5, 0.75, 1]
    assert rates("constant(warmup=3)") == [*rising, 1, 1]
    assert rates("exponential(factor=0.5, warmup=3)") == [*rising, 0.5, 0.25]
    assert rates("step(at=6, factor=0.2, warmup=3)") == [*rising, 1, 0.2]
    assert rates("cosine(warmup=3)", 7) == pytest.approx(
        [*rising, 0.853553, 0.5, 0.146447], abs=1e-6
    )


def test_lr_decay_is_the_short_form_of_exponential() -> None:
    short, long = (
        configure({"lr": 0.1, **more})
        for more in ({"lr_decay": 0.97}, {"schedule": "exponential(factor=0.97)"})
    )
    for number in range(1, 11):
        assert short.learning_rate(number) == long.learning_rate(number)
        assert short.learning_rate(number) == 0.1 * 0.97 ** (number - 1)


def test_a_later_layer_switches_the_other_way_to_write_it_off() -> None:
    preset = {"lr-decay": 0.9}
    assert configure(preset, {"schedule": "cosine"}).lr_decay == 1
    assert configure({"schedule": "cosine"}, {"lr_decay": "0.9"}).schedule == "constant"
    assert configure(preset, {"schedule": "constant"}).lr_decay == 0.9  # asks for nothing


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"schedule": "cosin"}, ["no schedule is called 'cosin'", "did you mean 'cosine'"]),
        ({"schedule": "step"}, ["needs the key 'at'"]),
        ({"schedule": "exponential"}, ["needs the key 'factor'"]),
        ({"schedule": "step(at=())"}, ["at=() must name a round"]),
        ({"schedule": "step(at=(5, 3))"}, ["rising order"]),
        ({"schedule": "step(at=(3, 3))"}, ["rising order"]),
        ({"schedule": "step(at=0)"}, ["at.0=0", "greater than or equal to 1"]),
        ({"schedule": "step(at='5')"}, ["valid integer"]),
        ({"schedule": "step(at=1)"}, ["would drop in round 1", "lower lr"]),
        ({"schedule": "step(at=4, warmup=3)"}, ["warmup=3", "round 4 is the first"]),
        ({"schedule": "step(at=3, factor=1.5)"}, ["factor=1.5"]),
        ({"schedule": "cosine(last=-1)"}, ["last=-1"]),
        ({"schedule": "constant(warmup=-1)"}, ["warmup=-1"]),
        ({"schedule": "constant, cosine"}, ["a run has one schedule"]),
        ({"schedule": ""}, ["schedule='constant'"]),
        (
            {"schedule": "cosine", "lr_decay": 0.9},
            ["lr-decay=0.9 and schedule='cosine'", "set lr-decay=1"],
        ),
        (
            {"schedule": "constant(warmup=2)", "lr_decay": 0.9},
            ['write schedule="exponential(factor=0.9, warmup=2)" alone'],
        ),
    ],
)
def test_refusals(settings: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure(settings)
    assert len(refusal.value.problems) == 1
    for word in words:
        assert word in str(refusal.value)


def test_what_never_happens_is_said() -> None:
    late = configure({"schedule": "step(at=(5, 51))", "rounds": 10}).cautions
    assert late == ["schedule: the drop in round 51 never comes, because rounds=10"]
    (long,) = configure({"schedule": "cosine(warmup=10)", "rounds": 10}).cautions
    assert "warmup=10 takes all of the run's 10 rounds" in long
    assert configure({"schedule": "step(at=10, warmup=2)", "rounds": 10}).cautions == []
