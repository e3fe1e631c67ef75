"""The run configuration: layers, defaults in one place, every problem at once."""

from typing import Any

import pytest

from fedmirage.common.data.catalogue.params import DATASETS
from fedmirage.common.data.partitions.params import PARTITIONS
from fedmirage.common.dp.settings import DP
from fedmirage.common.errors import ConfigurationError
from fedmirage.common.learning.schedules import SCHEDULES
from fedmirage.common.methods import METHODS
from fedmirage.common.models.params import MODELS
from fedmirage.common.secagg.settings import SECAGG
from fedmirage.common.settings.config import RunConfig, configure, defaults, key_of, validate
from fedmirage.common.settings.describe import describe
from fedmirage.common.settings.language import Params


def complaints(**settings: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        configure(settings)
    return caught.value.problems


def test_every_field_has_its_default_in_the_project_file_and_nowhere_else() -> None:
    assert set(defaults()) == {key_of(name) for name in RunConfig.model_fields}
    assert all(info.is_required() for info in RunConfig.model_fields.values())


def test_every_field_explains_itself() -> None:
    assert [name for name, info in RunConfig.model_fields.items() if not info.description] == []
    for method in METHODS.values():
        assert [row for row in describe(method) if not row.meaning] == []


def test_later_layers_win_and_keys_may_have_either_spelling() -> None:
    config = configure({"clients": 7, "batch-size": 8}, {"clients": 9})
    assert (config.clients, config.batch_size) == (9, 8)


def test_choosing_steps_switches_epochs_off() -> None:
    config = configure({"local_steps": 20})
    assert configure({"local_steps": "0"}).local_epochs == 5  # a zero asks for nothing
    assert (config.local_steps, config.local_epochs) == (20, 0)
    assert configure({"local_steps": 20}, {"local_epochs": 2}).local_steps == 0


def test_flat_is_what_flower_takes_and_gives_the_same_back() -> None:
    config = configure({"methods": "fedavg", "lr": 0.25})
    assert validate(config.flat()) == config
    assert all(isinstance(value, str | int | float | bool) for value in config.flat().values())


def test_texts_from_the_command_line_become_numbers() -> None:
    config = configure({"clients": "7", "lr": "0.5", "download": "true"})
    assert (config.clients, config.lr, config.download) == (7, 0.5, True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cleints": 3}, ["'cleints'", "did you mean 'clients'"]),
        ({"clients": 0}, ["clients=0", "greater than or equal to 1"]),
        ({"clients": -3}, ["clients=-3"]),
        ({"lr": "fast"}, ["lr='fast': input should be a valid number"]),
        ({"participation": 1.5}, ["participation=1.5"]),
        ({"lr": float("nan")}, ["lr=nan"]),
        ({"local_steps": 5, "local_epochs": 5}, ["local-steps=5 and local-epochs=5"]),
        ({"local_steps": 0, "local_epochs": 0}, ["exactly one of them"]),
        ({"min_replies": 6}, ["min-replies=6", "5 clients"]),
        ({"patience": 3}, ["patience=3", "validation"]),
        ({"warm_start": "a", "resume": "b"}, ["exclude each other"]),
        ({"device": "tpu"}, ["device='tpu'"]),
        ({"methods": "fedagv"}, ["did you mean 'fedavg'"]),
        ({"methods": "fedavg, fedavg"}, ["listed more than once"]),
        ({"model": "simple-cn"}, ["did you mean 'simple-cnn'"]),
        ({"model": "mlp, mlp"}, ["holds 2 names"]),
        ({"partition": "classes"}, ["needs the key 'per_client'"]),
        ({"dataset": "digits(size=0)"}, ["size=0"]),
        ({"optimizer": "sdg"}, ["optimizer='sdg'", "'sgd'"]),
    ],
)
def test_refusals(settings: dict[str, object], words: list[str]) -> None:
    message = "\n".join(complaints(**settings))
    for word in words:
        assert word in message


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = complaints(
        clients=0,
        methods="fedagv",
        partition="classes",
        model="zzz",
        odd=1,
        patience=2,
        warm_start="a",
        resume="b",
    )
    assert len(found) == 7


@pytest.mark.parametrize(
    ("setting", "line", "new"),
    [
        ("secagg", "on(bound=6000)", "max_examples"),
        ("methods", "dynafed(accept=0.9)", "max_loss"),
        ("methods", "FedCOG(js='code')", "disagreement"),
        ("methods", "fedcog(shared=True)", "same_images"),
        ("methods", "vhl(lam=0.5)", "alignment_weight"),
    ],
)
def test_a_renamed_key_is_told_its_new_name(setting: str, line: str, new: str) -> None:
    (found,) = complaints(**{setting: line})
    assert found.endswith(f"is now {new!r}")


@pytest.mark.parametrize(
    "params",
    [
        kind
        for known in (METHODS, DATASETS, PARTITIONS, MODELS, SECAGG, DP, SCHEDULES)
        for kind in known.values()
    ],
    ids=lambda params: params.name,
)
def test_new_names_of_keys_exist_and_old_ones_do_not(params: type[Params]) -> None:
    assert set(params.renamed.values()) <= set(params.model_fields)
    assert not set(params.renamed) & set(params.model_fields)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fedprox(mu='0.5')", "fedprox(mu='0.5'): input should be a valid number"),
        ("fedprox(mu=True)", "fedprox(mu=True): input should be a valid number"),
        ("fedcog(samples=8.0)", "fedcog(samples=8.0): input should be a valid integer"),
        ("vhl(shuffle_labels=1)", "vhl(shuffle_labels=1): input should be a valid boolean"),
    ],
)
def test_a_literal_of_the_wrong_kind_is_refused_and_not_converted(line: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        configure({"methods": line})
    assert reason in str(refusal.value)
    assert configure({"methods": "fedprox(mu=1)"}).method_list[0].mu == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({}, 0.05),
        ({"optimizer": "adam"}, 0.001),
        ({"optimizer": "adamw", "lr": "auto"}, 0.001),
        ({"optimizer": "adam", "lr": 0.05}, 0.05),
        ({"lr": "0.3"}, 0.3),
    ],
)
def test_every_optimiser_has_a_rate_of_its_own(given: dict[str, Any], rate: float) -> None:
    """A record has the number, so that a stored run keeps its rate whatever the defaults become."""
    config = configure(given)
    assert config.lr == rate
    assert configure({**config.flat(), "rounds": 20}).lr == rate
    assert validate({**defaults(), **given}).lr == rate  # as Flower passes it
