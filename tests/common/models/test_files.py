"""A run's model file contains everything that is needed to use it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from fedmirage.common.data.batches import Resident
from fedmirage.common.data.loading import load
from fedmirage.common.errors import DataError, FedmirageError
from fedmirage.common.learning.task import TASKS, evaluate
from fedmirage.common.models.files import load_model, save_model
from fedmirage.common.wire.files import read_arrays, write_arrays
from tests.support.inprocess import run_in_process
from tests.support.runs import SMALL, lines


def accuracy(path: Path, line: str) -> float:
    """Score a loaded model on the test set without any knowledge of its run."""
    model, facts = load_model(path)
    assert not model.training
    test = load(line).test
    with torch.inference_mode():
        logits = model(facts.normalise(torch.from_numpy(np.array(test.images))))
    answers = logits[:, : len(facts.classes)].argmax(1)
    return float((answers.numpy() == test.labels).mean())


@pytest.mark.parametrize(
    ("model", "methods"),
    [
        ("lenet-bn(hidden=32)", "fedavg"),
        ("simple-cnn", "vhl(generator='gaussian', per_class=2, batch=4)"),
    ],
)
def test_the_loaded_model_has_the_recorded_accuracy(
    tmp_path: Path, model: str, methods: str
) -> None:
    settings = {**SMALL, "model": model, "methods": methods, "local_steps": 20}
    run_in_process(tmp_path, **settings, validation=0.2, momentum=0.9, keep_models="all")
    rounds = lines(tmp_path)
    data = str(SMALL["dataset"])
    assert accuracy(tmp_path / "model.safetensors", data) == pytest.approx(rounds[-1]["accuracy"])
    assert len({line["accuracy"] for line in rounds}) > 1
    for number, one in enumerate(rounds, 1):
        kept = tmp_path / "models" / f"round-{number:05d}.safetensors"
        assert accuracy(kept, data) == pytest.approx(one["accuracy"])
        assert load_model(kept)[1].round == number
    (summary,) = lines(tmp_path, "summary")
    assert load_model(tmp_path / "best.safetensors")[1].round == summary["best_round"]


def test_what_the_file_tells(tmp_path: Path) -> None:
    run_in_process(tmp_path / "a", **SMALL, model="convnet(width=4)", methods="fedprox(mu=0.1)")
    run_in_process(tmp_path / "b", **SMALL, model="convnet(width=4)", methods="fedprox(mu=0.1)")
    one, other = (tmp_path / name / "model.safetensors" for name in "ab")
    assert one.read_bytes() == other.read_bytes()
    model, facts = load_model(one)
    assert facts.model == "convnet(width=4)"
    assert facts.methods == "fedprox(mu=0.1)"
    assert facts.classes == tuple("0123456789")
    assert (facts.outputs, facts.round, facts.task) == (10, 3, "single-label")
    assert facts.parts == ("features", "classifier")
    assert facts.parameters == sum(value.numel() for value in model.parameters())
    assert (facts.shape, facts.mean, facts.std) == ((1, 28, 28), (0.3053,), (0.3247,))
    with safe_open(one, framework="numpy") as file:
        assert json.loads(file.metadata()["fedmirage"])["version"] == facts.version


def test_the_facts_serve_evaluation_of_several_labels(tmp_path: Path) -> None:
    line = "digits-multi(train=60, test=40)"
    settings = {**SMALL, "dataset": line, "partition": "iid", "clients": 2}
    run_in_process(tmp_path, **settings)
    model, facts = load_model(tmp_path / "model.safetensors")
    test = load(line).test
    images, labels = torch.tensor(np.array(test.images)), torch.tensor(np.array(test.labels))
    batches = Resident(images, labels).in_order(facts.mean, facts.std)
    scores = evaluate(model, batches, TASKS[facts.task])
    assert scores["accuracy"] == pytest.approx(lines(tmp_path)[-1]["accuracy"])


def test_a_part_of_a_model_says_so(tmp_path: Path) -> None:
    run_in_process(tmp_path, **SMALL, methods="fedper")
    with pytest.raises(DataError, match=r"only features of a simple-cnn.*methods='fedper'"):
        load_model(tmp_path / "model.safetensors")


def test_a_part_that_a_method_added_is_not_needed(tmp_path: Path) -> None:
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    file = tmp_path / "model.safetensors"
    (named, told), (_, facts) = read_arrays(file), load_model(file)
    more = replace(facts, parts=("features", "classifier", "generator"))
    save_model({**named, "generator.weight": np.zeros(3, np.float32)}, tmp_path / "more", more)
    model, found = load_model(tmp_path / "more")
    assert found == more
    assert set(model.state_dict()) == set(named)
    del named["classifier.weight"]
    write_arrays(tmp_path / "less", named, told)
    with pytest.raises(DataError, match=r"lacks 'classifier\.weight'"):
        load_model(tmp_path / "less")


def test_files_and_images_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_arrays(tmp_path / "other.safetensors", {"weight": np.zeros(3, np.float32)})
    with pytest.raises(DataError, match="does not say which network"):
        load_model(tmp_path / "other.safetensors")
    with pytest.raises(DataError, match="there is no file"):
        load_model(tmp_path / "nothing.safetensors")
    run_in_process(tmp_path, **{**SMALL, "rounds": 1})
    _, facts = load_model(tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"takes torch.uint8 of \(batch, 1, 28, 28\)"):
        facts.normalise(torch.zeros(2, 3, 28, 28, dtype=torch.uint8))


ODD = [None, True, -1, "x", [], {}, [None], {"x": None}, 10**12, [1, 10**6, 10**6], 10**400, 1.5]


def test_false_facts_are_refused_before_a_network_is_built_from_them(tmp_path: Path) -> None:
    """A network for images of 10^6 pixels a side would take terabytes."""
    run_in_process(tmp_path, **{**SMALL, "rounds": 1}, model="mlp(hidden=8)")
    named, facts = read_arrays(tmp_path / "model.safetensors")
    refused = 0
    for key in facts:
        for value in ODD:
            write_arrays(tmp_path / "odd", named, {**facts, key: value})
            try:
                load_model(tmp_path / "odd")
            except FedmirageError as error:
                refused += bool(str(error))
    assert refused > len(ODD) * len(facts) * 3 // 4
    for other in (np.zeros(3, np.float32), np.zeros((10, 8)), np.zeros((10, 8), np.int32)):
        write_arrays(tmp_path / "odd", {**named, "classifier.weight": other}, facts)
        with pytest.raises(FedmirageError, match=r"classifier\.weight"):
            load_model(tmp_path / "odd")
