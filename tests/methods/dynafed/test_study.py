"""The study of a DynaFed run: every figure, their picture, and a sentence where there is nothing to
look at."""

from pathlib import Path

import numpy as np
import pytest

from experiments.studies import dynafed
from fedmirage.common.errors import FedmirageError
from tests.support.dynafed import line, run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dynafed.Made:
    folder = run(
        tmp_path_factory.mktemp("run"),
        line(length=3),
        save_images=True,
        keep_models="all",
        rounds=5,
    )
    return dynafed.Made.of(folder)


def test_figures(made: dynafed.Made) -> None:
    figures = dynafed.diagnose(made, epochs=2)
    sets = {"synthetic", "noise", "real"}
    assert set(figures["following"]) == {*sets, "no training"}
    assert [len(values) for values in figures["following"].values()] == [
        2
    ] * 4  # four checkpoints, s = 2
    assert set(figures["from_scratch"]) == set(figures["gradient"]) == sets
    assert all(len(values) == 4 for values in figures["gradient"].values())
    assert dynafed.draw(figures, made.folder / "diagnostics.png").stat().st_size > 1000


def test_the_gradient_on_all_data_is_at_no_distance_from_itself(
    made: dynafed.Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A "real subset" of everything: delta is 0 but for the softness of a label of 20 against 0."""
    everything = np.arange(len(made.dataset.train))
    monkeypatch.setattr(made, "real", lambda _: dynafed.Made.real(made, everything))
    for value in dynafed.gradient_distance(made)["real"]:
        assert value["delta"] < 1e-4
        assert value["cosine"] > 1 - 1e-4


def test_losses_of_clients_through_a_round(made: dynafed.Made) -> None:
    """What is sent out is what the last round ended with; all clients trained, and training lowers
    a client's own loss."""
    found = {
        (one["round"], one["client"], one["stage"]): one["loss"]
        for one in dynafed.client_losses(made)
    }
    assert {number for number, _, _ in found} == {4, 5}
    for client in {client for _, client, _ in found}:
        assert found[5, client, "sent out"] == found[4, client, "repaired"]
        assert found[5, client, "own"] < found[5, client, "sent out"]


def test_a_run_without_a_set(tmp_path: Path) -> None:
    with pytest.raises(FedmirageError, match="save-images"):
        dynafed.Made.of(tmp_path)
