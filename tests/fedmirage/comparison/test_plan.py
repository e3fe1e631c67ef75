"""What a comparison consists of, and that everything wrong with it is said at once."""

from pathlib import Path
from typing import Any

import pytest

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.methods import METHODS
from fedmirage.common.settings.config import configure
from fedmirage.comparison.command import plan_comparison
from fedmirage.comparison.plan import Plan, make_plan, read_seeds, shared_rounds
from fedmirage.comparison.rows import FEDAVG, VIRTUAL, Choice, choice_of, learning_rates, placebo_of
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, assert_same_bits

# Methods that begin as FedAvg, so that they act in round 3 of 4 for the first time.
LATE = {
    "fedcog": "fedcog(start=3, samples=6, steps=2)",
    "dynafed": (
        "dynafed(length=3, segment=1, iterations=2, steps=1, per_class=1, epochs=1, lr=0.01,"
        " max_loss=100, min_participants=1)"
    ),
}


def plan(tmp_path: Path, *methods: str, seeds: str = "0", **settings: Any) -> Plan:
    controls = settings.pop("controls", True)
    tune, schedules = settings.pop("tune", 0), settings.pop("schedules", [])
    layers = [{**SMALL, "out": str(tmp_path), **settings}]
    return make_plan(layers, methods, seeds, controls, tune, schedules, share=True)


def test_without_methods_these_are_fedavg_the_five_and_their_placebos(tmp_path: Path) -> None:
    rows = plan(tmp_path, clients=5).rows
    methods = [row.methods for row in rows if row.placebo]
    assert rows[0].methods == FEDAVG
    assert methods == list(VIRTUAL)
    assert [row.placebo for row in rows if row.placebo] == [
        "fedcog(source='none')",
        "vhl(shuffle_labels=True)",
        "dynafed(source='noise')",
        "fedlgd(source='noise')",
        "fedmd-cg(source='means')",
    ]
    assert len(rows) == 11
    assert len(plan(tmp_path, clients=5, controls=False).rows) == 6


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].placebo])
def test_a_placebo_is_a_change_of_the_method_itself(name: str) -> None:
    changed = METHODS[name](**METHODS[name].placebo)
    assert changed != METHODS[name]()


def test_a_placebo_keeps_what_else_is_in_the_line() -> None:
    assert placebo_of("VHL( width=8 ), fedprox(mu=0.01)") == (
        "vhl(width=8, shuffle_labels=True), fedprox(mu=0.01)"
    )
    assert placebo_of("vhl(shuffle_labels=True)") == ""
    assert placebo_of("scaffold") == ""


def test_all_runs_of_a_seed_differ_in_their_methods_alone(tmp_path: Path) -> None:
    jobs = plan(tmp_path, "fedprox", "scaffold", seeds="3,5").runs({})
    assert [(job.row.methods, job.config.seed) for job in jobs] == [
        (methods, seed) for seed in (3, 5) for methods in ("fedavg", "fedprox", "scaffold")
    ]
    assert len({job.folder for job in jobs}) == 6
    for job in jobs:
        same = {"methods": "fedavg", "seed": 0, "out": ""}
        assert configure(job.config.flat(), same) == configure(jobs[0].config.flat(), same)


def test_seeds_are_listed_or_counted() -> None:
    problems: list[str] = []
    assert read_seeds("4, 0..2,9 .. 9", problems) == (4, 0, 1, 2, 9)
    assert not problems
    for text in ("5..2", "0..", "..3", "0...3", "0..2,1", "-1..2", "0..1000", "1,,2", ""):
        assert read_seeds(text, problems) == ()
        assert problems.pop().startswith(f"seeds={text!r}: write different whole numbers")


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    flags = {"out": str(tmp_path / "new"), "lr": "-1", "resume": "x", "seed": "1"}
    lines = ["fedprx", "vhl(width=0)", "fedavg, (", "moon", "MOON"]
    choices = {"controls": True, "tune": -1, "schedules": ["cosin", "cosine", "Cosine()"]}
    with pytest.raises(ConfigurationError) as caught:
        plan_comparison([], flags, lines, "0,x", **choices, share=True)
    said = "\n".join(caught.value.problems)
    for word in ("resume='x'", "seed=1", "seeds='0,x'", "tune=-1", "lr='-1'", "'fedprx'"):
        assert word in said
    assert "width=0" in said
    assert "tune-schedules: no schedule is called 'cosin'; did you mean 'cosine'?" in said
    assert "tune-schedules: 'cosine' is given more than once" in said
    assert "cannot read '('" in said
    assert "'moon' is given more than once" in said
    assert said.count("lr='-1'") == 1  # not once per methods line
    assert not (tmp_path / "new").exists()


def test_a_folder_with_runs_of_other_settings_is_refused(tmp_path: Path) -> None:
    job = plan(tmp_path, "fedprox").runs({})[0]
    run_in_process(job.folder, **{**SMALL, "rounds": 1, "server_threads": 1, "lr": 0.5})
    with pytest.raises(ConfigurationError, match=r"lr=0.05 \(it was 0.5\)"):
        plan(tmp_path, "fedprox")


def test_learning_rates_lie_around_the_usual_one() -> None:
    assert learning_rates(0.05, 0) == (0.05,)
    assert learning_rates(0.05, 4) == (0.05, 0.0167, 0.15, 0.00556)


def test_every_row_may_try_equally_many_learning_rates(tmp_path: Path) -> None:
    """The given rate of FedAvg stays in the table, so that the choice shows its own effect."""
    tuned = plan(tmp_path, "fedprox", seeds="4,5", tune=3)
    trials = tuned.trials()
    for methods in ("fedavg", "fedprox"):
        rates = [job.config.lr for job in trials if job.row.methods == methods]
        assert rates == [0.05, 0.0167, 0.15]
    assert {job.config.seed for job in trials} == {4}
    assert {job.config.validation for job in trials} == {0.1}
    runs = tuned.runs({"fedavg": Choice(0.15, "constant"), "fedprox": Choice(0.05, "constant")})
    assert [(job.row.methods, job.config.lr, job.config.seed) for job in runs] == [
        ("fedavg", 0.05, 4),
        ("fedavg", 0.05, 5),
        ("fedavg", 0.15, 4),
        ("fedprox", 0.05, 4),
        ("fedavg", 0.15, 5),
        ("fedprox", 0.05, 5),
    ]
    folders = {job.folder for job in trials}
    assert all(job.folder in folders for job in runs if job.config.seed == 4)  # not run twice


def test_every_row_may_try_every_schedule_with_every_rate(tmp_path: Path) -> None:
    """The given schedule is always among them, whichever way it was written."""
    more = {"tune": 2, "schedules": ["step(at=3,factor=0.2)", "cosine"], "lr_decay": 0.9}
    tuned = plan(tmp_path, "vhl", **more)
    grid = [
        (lr, schedule)
        for lr in (0.05, 0.0167)
        for schedule in ("exponential(factor=0.9)", "step(at=(3,), factor=0.2)", "cosine")
    ]
    assert [(choice.lr, choice.schedule) for choice in tuned.choices] == grid
    trials = tuned.trials()
    assert {job.row.methods for job in trials} == {"fedavg", "vhl", "vhl(shuffle_labels=True)"}
    for methods in {job.row.methods for job in trials}:
        found = [choice_of(job.config) for job in trials if job.row.methods == methods]
        assert [(choice.lr, choice.schedule) for choice in found] == grid
    assert len({job.folder for job in trials}) == len(trials) == 18
    assert {job.config.validation for job in trials} == {0.1}
    assert trials[0].config.lr_decay == 0.9
    cosine = next(job for job in trials if job.config.schedule == "cosine")
    assert cosine.config.lr_decay == 1
    assert cosine.folder.name == "fedavg-cosine-seed0"


def test_schedules_alone_are_tried_with_the_given_rate(tmp_path: Path) -> None:
    tuned = plan(tmp_path, "fedprox", schedules=["cosine", "constant"])
    assert [(one.lr, one.schedule) for one in tuned.choices] == [
        (0.05, "constant"),
        (0.05, "cosine"),
    ]
    assert tuned.base.validation == 0.1
    assert len(plan(tmp_path / "none", "fedprox").choices) == 1


def test_rounds_are_shared_only_between_runs_of_one_schedule(tmp_path: Path) -> None:
    tuned = plan(tmp_path, LATE["fedcog"], controls=False, schedules=["cosine"], rounds=4)
    assert [bool(job.parent) for job in tuned.trials()] == [False, True, False, True]
    runs = tuned.runs({LATE["fedcog"]: Choice(0.05, "cosine")})
    assert [bool(job.parent) for job in runs] == [False, False]


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].begins_as_fedavg])
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_shared_rounds_give_the_bits_of_a_run_of_its_own(
    tmp_path: Path, name: str, participation: float
) -> None:
    """With half of the clients per round, memories of different ages are taken over too."""
    settings = {**SMALL, "rounds": 4, "participation": participation, "server_threads": 1}
    planned = plan(tmp_path / "shared", LATE[name], controls=False, **settings)
    fedavg, late = planned.runs({})
    assert late.parent == fedavg.folder
    assert late.rounds == 2
    for job in (fedavg, late):
        run_in_process(job.folder, **job.config.model_dump(exclude={"out"}))
    run_in_process(tmp_path / "own", **{**settings, "methods": LATE[name]})
    assert_same_bits(late.folder, tmp_path / "own")


@pytest.mark.parametrize(
    "settings",
    [
        {"methods": "fedcog(start=3), fedprox"},
        {"methods": "scaffold"},
        {"patience": 2, "validation": 0.1},
        {"secagg": "on"},
        {"dp": "central(clip=1, noise=1)"},
        {"warm_start": "elsewhere@2"},
    ],
)
def test_rounds_that_may_differ_from_fedavgs_are_not_shared(settings: dict[str, Any]) -> None:
    usual = {"methods": "fedcog(start=3)", "clients": 5}
    assert shared_rounds(configure(usual)) == 2
    assert shared_rounds(configure(usual, settings)) == 0
