"""What must hold for every method, as functions: MethodTests calls them, and so do tests here.

A method is given by its name, or by its file. Each check runs two or a few rounds on 60 digits in
this process, with the parameters that the method declares as `quick`.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays

from fedmirage.common.errors import ConfigurationError
from fedmirage.common.method import Place
from fedmirage.common.methods import METHODS
from fedmirage.common.secagg.settings import why_not
from fedmirage.common.settings.config import configure
from fedmirage.common.wire.payload import Arrays
from fedmirage.runtimes.quick import BASE, finite, line
from fedmirage.server.strategy.average import Aggregated, Average
from fedmirage.testing import runs
from fedmirage.testing.inprocess import run_in_process
from fedmirage.testing.runs import KilledError, kill_in_round
from fedmirage.testing.seams import Pair, problems, where_to_look
from fedmirage.testing.simulated_device import simulated_device


@cache
def outcome(names: tuple[str, ...], model: str = BASE["model"]) -> list[np.ndarray]:
    """Return what two rounds lead to: shared weights, the model that is saved, each client's."""
    folder = Path(tempfile.mkdtemp())
    try:
        settings = {**BASE, "model": model, "keep_models": "all"}
        run_in_process(folder, **settings, methods=", ".join(map(line, names)))
        return runs.arrays(folder)
    finally:
        shutil.rmtree(folder)


def check_acts(name: str, model: str = BASE["model"]) -> None:
    """A method runs, its weights stay finite, and they differ from FedAvg's."""
    assert finite(outcome((name,), model))
    acts = runs.differ(outcome((name,), model), outcome(("fedavg",), model))
    assert acts == (name != "fedavg"), f"{line(name)} does nothing; declare `quick` parameters"


def check_is_fedavg(methods: str, folder: Path, model: str = BASE["model"]) -> None:
    """A methods line that is supposed to do nothing is FedAvg in every bit."""
    run_in_process(folder, **{**BASE, "model": model, "keep_models": "all"}, methods=methods)
    assert runs.same_bits(runs.arrays(folder), outcome(("fedavg",), model))


def check_resumes(name: str, folder: Path) -> None:
    """A run that is killed halfway through round 3 goes on with the same bits.

    Two of four clients take part in a round. What a method keeps, on either side, is found again.
    """
    settings = {**BASE, "participation": 0.5, "rounds": 4, "methods": line(name)}
    run_in_process(folder / "whole", **settings)
    with pytest.raises(KilledError):
        run_in_process(folder / "cut", kill_in_round(3), **settings)
    run_in_process(folder / "cut", **settings, resume=str(folder / "cut"))
    assert finite(runs.arrays(folder / "whole"))
    assert runs.same_bits(runs.arrays(folder / "whole"), runs.arrays(folder / "cut"))


def check_secure(name: str, folder: Path, model: str = BASE["model"]) -> None:
    """A secure round equals the plain one up to the quantisation step.

    Methods that must see clients one by one are refused. A method that trains the average once more
    may answer the last bit of it with anything that its learning rate allows, so it begins with the
    secure average in the plain round as well.
    """
    more = {"eval_every": 1, "model": model, "methods": line(name), "secagg": "on"}
    settings: dict[str, Any] = {**BASE, **more}
    (method,) = configure({"methods": line(name)}).method_list
    if why_not(method) is not None:
        with pytest.raises(ConfigurationError, match=f"secagg: {method.name} needs"):
            configure(settings)
        return
    with keep_averages() as secure:
        run_in_process(folder / "secure", **{**settings, "rounds": 1})
    with keep_averages(secure if method.place is Place.REPAIRS else ()) as plain:
        run_in_process(folder / "plain", **{**settings, "rounds": 1, "secagg": "off"})
    assert len(secure) == len(plain)
    found = [*secure, runs.weights(folder / "secure")]
    for one, other in zip(found, [*plain, runs.weights(folder / "plain")], strict=True):
        assert_close(one, other)
    (masked,), (seen,) = runs.lines(folder / "secure"), runs.lines(folder / "plain")
    reported = select_reported(seen["train"], masked["train"])
    assert reported == pytest.approx(seen["train"], abs=1e-4)
    examples = sum(client["examples"] for client in seen["clients"])
    assert masked["secagg"] == {"clients": 4, "examples": examples}
    if "methods" in seen:
        reported = select_reported(seen["methods"], masked["methods"])
        assert reported == pytest.approx(seen["methods"], rel=1e-2, abs=1e-3)
    run_in_process(folder / "two", **settings)
    assert finite([*runs.weights(folder / "two"), np.zeros(1)])


@contextmanager
def keep_averages(instead: Sequence[Arrays] = ()) -> Iterator[list[Arrays]]:
    """Collect the average of every round, and go on with others instead, if there are any."""
    kept: list[Arrays] = []
    average = Average.aggregate_fit

    def aggregate(self: Average, server_round: int, results: Any, failures: Any) -> Aggregated:
        parameters, metrics = average(self, server_round, results, failures)
        assert parameters is not None
        kept.append(parameters_to_ndarrays(parameters))
        if instead:
            parameters = ndarrays_to_parameters(instead[len(kept) - 1])
        return parameters, metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Average, "aggregate_fit", aggregate)
        yield kept


def assert_close(one: Arrays, other: Arrays) -> None:
    """Fail unless weights have the same types and differ by no more than rounding."""
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        assert np.abs(a - b).max(initial=0) <= 2e-6


def select_reported(wanted: dict[str, float], metrics: dict[str, float]) -> dict[str, float]:
    """Select some of a secure round's metrics; those that no client reports are 0."""
    assert not any(value for name, value in metrics.items() if name not in wanted)
    return {name: metrics[name] for name in wanted}


def check_pair(pair: Pair) -> None:
    """Two methods run together, and both count.

    Naming `fedavg` changes nothing: beside it, a method is what it is alone.
    """
    try:
        result = outcome.__wrapped__(pair)  # not kept: no other check asks for it
    except Exception as error:
        error.add_note(where_to_look(pair))
        raise
    assert finite(result), f"a weight is not finite; {where_to_look(pair)}"
    for name, other in (pair, pair[::-1]):
        if other == "fedavg":
            same = runs.same_bits(result, outcome((name,)))
            assert same, f"fedavg does something beside {name}"
        elif name != "fedavg":
            both = runs.differ(result, outcome((name,)))
            assert both, f"{other} does nothing beside {name}; {where_to_look(pair)}"


def check_refused(pair: Pair) -> bool:
    """Whether a pair is unsound; then it must be refused with the reason. Nothing runs."""
    if not (found := problems(pair)):
        return False
    with pytest.raises(ConfigurationError) as refusal:
        configure({**BASE, "methods": ", ".join(map(line, pair))})
    assert set(found) <= set(refusal.value.problems)
    names = {METHODS[name].name for name in pair}
    assert names <= set(re.findall(r"[\w-]+", str(refusal.value))), pair
    return True


def check_device(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that is not the CPU, a run leaves nothing behind on the CPU.

    The simulated device refuses, as a GPU does, to mix its tensors with those of the CPU. The
    results are those of the CPU; it says nothing about the kernels and the numbers of a real GPU.
    """
    settings = {**BASE, "methods": line(name)}
    run_in_process(folder / "cpu", **settings)
    with monkeypatch.context() as patch, simulated_device(patch) as simulation:
        run_in_process(folder / "device", **settings)
    assert simulation.waits  # at least the trained weights are copied to the CPU
    pairs = zip(runs.weights(folder / "device"), runs.weights(folder / "cpu"), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
