"""DynaFed in runs: FedAvg before its start, phases, refusals, resume, warm start, resynthesis,
controls, somebody else's app."""

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.common import (
    Code,
    FitRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server.strategy import FedAvg
from rich.console import Console
from torch import nn

from fedmirage.common.errors import ConfigurationError, FedmirageError
from fedmirage.common.methods import METHODS
from fedmirage.common.methods.dynafed import DynaFed
from fedmirage.common.models.factory import build
from fedmirage.common.settings.config import configure
from fedmirage.common.settings.language import resolve_line
from fedmirage.common.wire.files import read_arrays
from fedmirage.server.methods.dynafed import log as synthesis_log
from fedmirage.server.methods.dynafed.server import COLLECTING, GIVEN_UP, REPAIRING, DynaFedServer
from fedmirage.server.record.checkpoint import read_checkpoint
from fedmirage.show.progress import Watch, show_summary
from tests.support.dynafed import QUICK, RUN, line, run
from tests.support.runs import (
    KilledError,
    assert_same_bits,
    kill_in_round,
    lines,
    weights,
    without_times,
)
from tests.support.strategies import Client, Manager


def state(folder: Path) -> dict[str, Any]:
    saved = read_checkpoint(folder / "checkpoint.safetensors").strategy
    return {name.removeprefix("dynafed."): value for name, value in saved.items()}


def notes(folder: Path) -> str:
    return " / ".join(note["text"] for note in lines(folder, "note"))


# FedAvg


@pytest.mark.parametrize("model", [RUN["model"], "convnet(width=2, depth=1, norm='batch')"])
def test_before_its_start_it_is_fedavg_bit_for_bit(tmp_path: Path, model: str) -> None:
    run(tmp_path / "fedavg", "fedavg", model=model)
    run(tmp_path / "before", line(length=5), model=model)
    run(tmp_path / "nothing", line(length=1, epochs=0), model=model)
    assert_same_bits(tmp_path / "fedavg", tmp_path / "before")
    assert_same_bits(tmp_path / "fedavg", tmp_path / "nothing")
    kept = state(tmp_path / "before")
    assert (kept["phase"], kept["seen"], len(kept["trajectories"][0])) == (COLLECTING, 4, 5)


def test_a_set_that_learned_nothing_is_not_used(tmp_path: Path) -> None:
    run(tmp_path / "fedavg", "fedavg")
    run(tmp_path / "given up", line(length=2, max_loss=0.5))
    assert_same_bits(tmp_path / "fedavg", tmp_path / "given up")
    kept = state(tmp_path / "given up")
    assert (kept["phase"], kept["images"], kept["trajectories"]) == (GIVEN_UP, None, [])
    assert "leaves the model alone" in notes(tmp_path / "given up")
    assert lines(tmp_path / "given up")[1]["methods"]["dynafed.accepted"] == 0


# A run


def test_a_run_says_what_it_does(tmp_path: Path) -> None:
    run(tmp_path, line(length=2, segment=5), save_images=True)
    first, second, third, _ = lines(tmp_path)
    assert "methods" not in first
    assert {"dynafed.loss", "dynafed.rate", "dynafed.repaired"} <= set(second["methods"])
    assert third["methods"] == {"dynafed.repaired": 1}
    for one in (second, third):
        scores = one["evaluation"]
        assert scores["dynafed.repaired.accuracy"] == one["accuracy"]
        assert scores["dynafed.repaired.loss"] != scores["dynafed.average.loss"]
    assert "shrinks segment=5 to 2" in notes(tmp_path)
    assert "has its set: matching loss" in notes(tmp_path)
    kept = state(tmp_path)
    assert (kept["phase"], kept["made"], kept["trajectories"]) == (REPAIRING, 2, [])
    assert kept["images"].shape == (10, 1, 8, 8)
    named, about = read_arrays(tmp_path / "dynafed" / "round-00002.safetensors")
    assert about == {"round": 2, "segment": 2}
    assert named["path@000"].shape[0] == 3
    np.testing.assert_array_equal(named["images@000003"], kept["images"])


def test_the_average_is_the_one_that_fedavg_has(tmp_path: Path) -> None:
    """This is so in the first repaired round: the repair does not change what is averaged."""
    run(tmp_path / "fedavg", "fedavg", rounds=2)
    run(tmp_path / "dynafed", line(length=2), rounds=2)
    ours, theirs = lines(tmp_path / "dynafed")[1], lines(tmp_path / "fedavg")[1]
    assert ours["evaluation"]["dynafed.average.loss"] == theirs["loss"]
    assert ours["loss"] != theirs["loss"]


def test_the_first_repair_may_wait_for_the_next_round(tmp_path: Path) -> None:
    run(tmp_path, line(length=2, same_round=False))
    assert ["dynafed.repaired" in one.get("methods", {}) for one in lines(tmp_path)] == [
        False,
        False,
        True,
        True,
    ]


def test_progress_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis_log, "EVERY", 0.0)
    run(tmp_path, line(length=1), rounds=1)
    assert "dynafed synthesises: 1/3, matching loss" in notes(tmp_path)

    for note in lines(tmp_path, "note"):
        assert note.get("progress", False) == ("synthesises" in note["text"])


@pytest.mark.parametrize("terminal", [False, True])
def test_decisions_are_printed_and_progress_moves_the_bar(tmp_path: Path, terminal: bool) -> None:
    heard = StringIO()
    watch = Watch(Console(file=heard, width=200, force_terminal=terminal), tmp_path, 3)
    watch._show({"kind": "note", "round": 2, "text": "half", "progress": True})
    assert watch.progress.tasks[0].description == "half"
    assert ("half" in heard.getvalue()) is not terminal
    watch._show({"kind": "note", "round": 2, "text": "given up"})
    assert "round 2: given up" in heard.getvalue()
    assert watch.progress.tasks[0].description == "half"


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        (line(length=1), None),
        (line(length=1, max_loss=1e-9), "no set was accepted"),
        (line(length=3), r"the run ended while it collected \(2 of 3"),
    ],
)
def test_a_run_in_which_it_never_acted_is_recognisable(
    tmp_path: Path, methods: str, words: str | None
) -> None:
    run(tmp_path, methods, rounds=2)
    (summary,) = lines(tmp_path, "summary")
    assert (words is None) == ("idle" not in summary)
    if words is not None:
        assert re.search(words, summary["idle"]["dynafed"])
        heard = StringIO()
        show_summary(Console(file=heard, width=200), summary, tmp_path)
        assert "dynafed never acted" in heard.getvalue()
    if summary.get("notes"):
        assert [f"round {note['round']}: {note['text']}" for note in lines(tmp_path, "note")] == [
            text for text in summary["notes"] if text.startswith("round")
        ]


def test_one_seed_one_result(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(tmp_path / name, line(length=2), rounds=2, seed=seed)
    assert_same_bits(tmp_path / "a", tmp_path / "b")
    assert without_times(tmp_path / "a") == without_times(tmp_path / "b")
    assert state(tmp_path / "a")["images"].tobytes() != state(tmp_path / "c")["images"].tobytes()


@pytest.mark.parametrize("killed", [2, 4])
def test_a_resumed_run_goes_on_as_if_never_stopped(tmp_path: Path, killed: int) -> None:
    """The run is killed while the path is collected, and after the synthesis of round 3.

    By then, the path for another synthesis is growing.
    """
    methods = line(length=3, resynthesise=2)
    run(tmp_path / "whole", methods, rounds=6)
    with pytest.raises(KilledError):
        run(tmp_path / "cut", methods, kill_in_round(killed), rounds=6)
    run(tmp_path / "cut", methods, rounds=6, resume=str(tmp_path / "cut"))
    assert_same_bits(tmp_path / "whole", tmp_path / "cut")
    one, other = state(tmp_path / "whole"), state(tmp_path / "cut")
    assert one["images"].tobytes() == other["images"].tobytes()
    assert (one["rate"], one["made"], one["phase"]) == (
        other["rate"],
        other["made"],
        other["phase"],
    )


def test_a_warm_start_takes_the_path_of_the_run_that_it_begins_from(tmp_path: Path) -> None:
    """If there are `length` averages, it synthesises in its first round; with fewer it waits.

    The path is that of a run from the start.
    """
    run(tmp_path / "parent", "fedavg", rounds=3, keep_models="all")
    for length, start, made in ((3, 3, 4), (2, 3, 4), (3, 2, 3)):
        place = tmp_path / f"{length}-{start}"
        run(place, line(length=length), warm_start=f"{tmp_path / 'parent'}@{start}")
        assert state(place)["made"] == made
    run(tmp_path / "cold", line(length=3, same_round=False), rounds=3, save_images=True)
    run(tmp_path / "warm", line(length=3), warm_start=str(tmp_path / "parent"), save_images=True)
    cold, _ = read_arrays(tmp_path / "cold" / "dynafed" / "round-00003.safetensors")
    warm, _ = read_arrays(tmp_path / "warm" / "dynafed" / "round-00004.safetensors")
    assert cold["path@000"].tobytes() == warm["path@000"].tobytes()


def test_a_warm_start_without_kept_models_begins_its_path_there(tmp_path: Path) -> None:
    run(tmp_path / "parent", "fedavg", rounds=2)
    run(tmp_path / "warm", line(length=2), warm_start=str(tmp_path / "parent"), save_images=True)
    path = read_arrays(tmp_path / "warm" / "dynafed" / "round-00004.safetensors")[0]["path@000"]
    first = np.concatenate([array.ravel() for array in weights(tmp_path / "parent")])
    np.testing.assert_array_equal(path[0], first)


def test_the_path_of_a_resynthesis_is_of_averages_before_repair(tmp_path: Path) -> None:
    run(tmp_path, line(length=2, resynthesise=2), save_images=True, keep_models="all")
    assert [one["methods"].get("dynafed.accepted") for one in lines(tmp_path)[1:]] == [1, None, 1]
    named, _ = read_arrays(tmp_path / "dynafed" / "round-00004.safetensors")
    assert [len(named[name]) for name in ("path@000", "path@001")] == [3, 3]
    # both are round 2's average
    np.testing.assert_array_equal(named["path@000"][-1], named["path@001"][0])
    sent, _ = read_arrays(tmp_path / "models" / "round-00002.safetensors")
    assert (
        np.abs(
            named["path@001"][0] - np.concatenate([array.ravel() for array in by_size(sent)])
        ).max()
        > 1e-3
    )


def by_size(named: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The arrays of the MLP in the order of its parameters."""
    order = [
        "features.hidden1.linear.weight",
        "features.hidden1.linear.bias",
        "classifier.weight",
        "classifier.bias",
    ]
    return [named[name] for name in order]


def test_controls_have_the_labels_of_the_set(tmp_path: Path) -> None:
    for source in ("synthetic", "noise", "permuted"):
        run(tmp_path / source, line(length=2, source=source), rounds=3)
    images = {
        source: state(tmp_path / source)["images"].tobytes()
        for source in ("synthetic", "noise", "permuted")
    }
    assert len(set(images.values())) == 1
    assert len({weights(tmp_path / source)[0].tobytes() for source in images}) == 3
    strategy = app(source="permuted")
    strategy.state.images, strategy.state.labels = (
        np.zeros((6, 4), np.float32),
        np.arange(18, dtype=np.float32).reshape(6, 3),
    )
    labels = strategy.training_set()[1]
    assert sorted(labels[:, 0].tolist()) == [0, 3, 6, 9, 12, 15]
    assert labels[:, 0].tolist() != [0, 3, 6, 9, 12, 15]


# In somebody else's Flower app


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)
        )


def app(**params: Any) -> DynaFedServer:
    inner = FedAvg(min_fit_clients=1, min_available_clients=1)
    return DynaFedServer(
        inner, DynaFed(**{**QUICK, "length": 2, **params}), model=network(), shape=(1, 2, 2)
    )


def model_arrays(kind: str = "state", moved: float = 0.0) -> list[np.ndarray]:
    source = network().state_dict() if kind == "state" else dict(network().named_parameters())
    return [
        tensor.detach().numpy() + (np.float32(moved) if tensor.is_floating_point() else 0)
        for tensor in source.values()
    ]


def fit(
    strategy: DynaFedServer, number: int, moved: float, clients: int = 2, kind: str = "state"
) -> Parameters | None:
    """A round whose clients all return the initial model plus `moved`."""
    strategy.configure_fit(number, ndarrays_to_parameters(model_arrays(kind)), Manager())
    replies = [
        (
            Client(client),
            FitRes(Status(Code.OK, ""), ndarrays_to_parameters(model_arrays(kind, moved)), 1, {}),
        )
        for client in range(clients)
    ]
    aggregated, _ = strategy.aggregate_fit(number, replies, [])
    return aggregated


@pytest.mark.parametrize("kind", ["state", "parameters"])
def test_round_flowers_own_fedavg(kind: str) -> None:
    """A whole state dict, with BatchNorm's statistics and its count of batches, or the parameters
    alone."""
    strategy = app()
    assert strategy.classes == 3
    fit(strategy, 1, 0.1, kind=kind)
    aggregated = fit(strategy, 2, 0.2, kind=kind)
    assert strategy.state.phase == REPAIRING
    assert isinstance(aggregated, Parameters)
    repaired, average = parameters_to_ndarrays(aggregated), model_arrays(kind, 0.2)
    assert [array.dtype for array in repaired] == [array.dtype for array in average]
    assert np.abs(repaired[0] - average[0]).max() > 1e-3


@pytest.mark.parametrize("by_hand", [True, False])
def test_derivatives_by_hand_can_be_switched_off(by_hand: bool) -> None:
    model = build("convnet(width=2, depth=1)", (1, 4, 4), 3)
    params = DynaFed(by_hand=by_hand)
    strategy = DynaFedServer(FedAvg(), params, model=model, shape=(1, 4, 4))
    assert (strategy.student.by_hand is not None) is by_hand


def test_it_says_what_it_needs() -> None:
    with pytest.raises(FedmirageError, match="give it model=net and shape="):
        DynaFedServer(FedAvg())
    with pytest.raises(FedmirageError, match="neither the state dict nor the parameters"):
        app().configure_fit(1, ndarrays_to_parameters([np.zeros(7, np.float32)]), Manager())


def test_an_average_of_too_few_clients_is_left_out() -> None:
    said: list[str] = []
    strategy = app(min_participants=2)
    strategy.context = replace(strategy.context, note=lambda _, text: said.append(text))
    fit(strategy, 1, 0.1)
    fit(strategy, 2, 0.2, clients=1)
    assert (strategy.state.phase, strategy.state.seen, len(strategy.state.trajectories[0])) == (
        COLLECTING,
        1,
        2,
    )
    assert "leaves out this average of 1 clients" in said[0]
    fit(strategy, 3, 0.3)
    assert strategy.state.phase == REPAIRING


def test_a_run_that_could_never_begin_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="gives 4 per round"):
        configure({"methods": "dynafed", "clients": 10, "participation": 0.4})


def test_a_model_that_does_not_move_is_no_checkpoint_and_postpones() -> None:
    strategy = app()
    fit(strategy, 1, 0.0)
    fit(strategy, 2, 0.0)
    assert (strategy.state.phase, strategy.state.seen, len(strategy.state.trajectories[0])) == (
        COLLECTING,
        2,
        1,
    )
    fit(strategy, 3, 0.1)
    assert strategy.state.phase == REPAIRING


def test_a_round_without_a_result_shortens_the_path() -> None:
    strategy = app(length=3)
    fit(strategy, 1, 0.1)
    assert strategy.aggregate_fit(2, [], []) == (None, {})
    fit(strategy, 3, 0.2)
    assert strategy.state.phase == REPAIRING
    assert strategy.state.made == 3


def test_checkpoints_do_not_alias_the_model() -> None:
    strategy = app(length=3)
    fit(strategy, 1, 0.1)
    fit(strategy, 2, 0.2)
    path = strategy.state.trajectories[0]
    assert [float(checkpoint[0][0, 0] - path[0][0][0, 0]) for checkpoint in path] == pytest.approx(
        [0, 0.1, 0.2], abs=1e-6
    )


def test_without_the_initial_model() -> None:
    strategy = app(length=3, initial=False)
    fit(strategy, 1, 0.1)
    fit(strategy, 2, 0.2)
    assert len(strategy.state.trajectories[0]) == 2


# The declaration


def test_variants_are_bundles_and_explicit_keys_win() -> None:
    def read(text: str) -> DynaFed:
        (params,) = resolve_line(text, METHODS, "methods")
        assert isinstance(params, DynaFed)
        return params

    code = read('dynafed(variant="code", segment=4)')
    assert (code.length, code.segment, code.draws, code.initial, code.same_round) == (
        24,
        4,
        (2, 3),
        True,
        False,
    )
    paper = read('dynafed(variant="paper")')
    assert (paper.length, paper.segment, paper.draws, paper.initial, paper.same_round) == (
        20,
        5,
        (2,),
        False,
        False,
    )
    assert read("dynafed").same_round


def test_a_server_rule_stands_inside() -> None:
    configure({"methods": "fedavgm, dynafed"})
    with pytest.raises(ConfigurationError, match="write fedavgm left of dynafed"):
        configure({"methods": "dynafed, fedavgm"})
