"""Tables: predictions and evaluations use the schema and the normalisation in the model file."""

from pathlib import Path

import numpy as np
import pytest

import fedmirage
from fedmirage.common.data.loading import load
from fedmirage.common.errors import FedmirageError
from fedmirage.common.models.files import read_facts
from fedmirage.trained.evaluation import evaluate
from fedmirage.trained.labelled import load_labelled
from fedmirage.trained.personal import assemble
from tests.support.inprocess import run_in_process
from tests.support.runs import lines
from tests.support.tables import SCHEMA, line_of, write_rows, write_schema, write_table
from tests.support.trained import QUICK


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on a table whose normalisation the clients formed."""
    folder = tmp_path_factory.mktemp("table")
    line = line_of(write_table(folder, 200), write_schema(folder))
    run_in_process(folder / "run", **QUICK, dataset=line)
    return folder


def test_rows_with_and_without_labels_get_the_answers_that_the_run_scored(
    table: Path, tmp_path: Path
) -> None:
    model = fedmirage.load_model(table / "run" / "model.safetensors")
    dataset = load(line_of(table / "table.csv", table / "schema.toml"))
    assert model.facts.mean != dataset.mean, "the clients formed another one"
    answers = model.predict(table / "table.csv")
    held = {image.tobytes() for image in np.array(dataset.test.images)}
    everything = model.facts.open_reader().read([table / "table.csv"]).values
    tested = [at for at, row in enumerate(everything) if row.tobytes() in held]
    truth = [row.rsplit(",", 1)[1] for row in (table / "table.csv").read_text().split("\n")[1:-1]]
    assert len(tested) == len(dataset.test) == 40
    right = np.mean([answers["class"][at] == truth[at] for at in tested])
    assert right == pytest.approx(lines(table / "run")[-1]["accuracy"])
    assert right > 0.6
    bare = [row.rsplit(",", 1)[0] for row in (table / "table.csv").read_text().split("\n")[:2]]
    one = write_rows(tmp_path, bare[1], header=bare[0])
    found = model.predict(one)
    assert found["probability"][0] == pytest.approx(answers["probability"][0])
    assert found["input"][0] == f"{one}:1"


def test_evaluation_needs_no_schema_file(table: Path, tmp_path: Path) -> None:
    model = fedmirage.load_model(table / "run" / "model.safetensors")
    found = evaluate(model, load_labelled(model.facts, f"table(path='{table}/table.csv')"), 0)
    (last,) = lines(table / "run")[-1:]
    assert found["scores"]["accuracy"]["value"] == pytest.approx(last["accuracy"], abs=1e-6)
    assert found["scores"]["auc"]["value"] == pytest.approx(last["evaluation"]["auc"], abs=1e-6)
    other = write_schema(tmp_path, SCHEMA.replace("high = 300", "high = 400"))
    line = line_of(table / "table.csv", other)
    with pytest.raises(FedmirageError, match="what it says of the column 'weight' differs; leave"):
        load_labelled(model.facts, line)


def test_rows_that_do_not_fit_the_schema_are_refused(table: Path, tmp_path: Path) -> None:
    model = fedmirage.load_model(table / "run" / "model.safetensors")
    for header, row, sentence in (
        ("age,colour", "40,red", "the schema's column 'weight' is missing"),
        ("age,colour,weight,height", "40,red,70,1", "the column 'height' is not in the schema"),
        ("age,colour,weight", "40,pink,70", "1 of the 1 values of 'colour' are none of its 3"),
        ("age,colour,weight", "old,red,70", "1 of the 1 values of 'age' are no numbers"),
    ):
        with pytest.raises(FedmirageError, match=sentence):
            model.predict(write_rows(tmp_path, row, header=header))


def test_a_personal_model_keeps_the_normalisation_that_the_clients_formed(tmp_path: Path) -> None:
    line = line_of(write_table(tmp_path, 120), write_schema(tmp_path))
    run_in_process(tmp_path / "run", **QUICK, dataset=line, methods="fedper")
    (memory,) = (tmp_path / "run" / "memory").iterdir()
    made = assemble(memory.parent, memory.name, 0)
    shared = read_facts(tmp_path / "run" / "model.safetensors")
    assert made.facts.mean == shared.mean
    assert made.facts.mean != load(line).mean
    told = lines(tmp_path / "run")[-1]["clients"][0]
    found = evaluate(made.trained, made.hold_out(), 0)["scores"]["accuracy"]["value"]
    reported = told["local_model.on_test_shard.by_examples.accuracy"]
    assert found == pytest.approx(reported, abs=1e-6)
