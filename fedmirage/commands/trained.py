"""Commands for a model that is trained: predict, evaluate, export, card, personal."""

from pathlib import Path
from typing import Annotated, Any

from fedmirage.commands.console import err, out
from fedmirage.show.words import say

NotNegative = Annotated[int, {"min": 0}]
OutFile = Annotated[Path | None, "--out"]


def predict(
    model_file: Path,
    inputs: list[Path],
    csv: bool = False,
    top: int = 1,
    dataset: str = "",
    model: str = "",
    encoder: str = "",
) -> None:
    """Predict classes with a trained model: a row per input, with the probability of its class.

    Inputs are read, resized and normalised exactly as in training: the model file says how.

    Example: fedmirage predict runs/one/model.safetensors photos/ --top 3

    Arguments:
        model_file: The model file of a run, such as runs/one/model.safetensors.
        inputs: Pictures, folders with pictures, arrays (.npz, .npy), rows (.csv, .parquet, .jsonl).
    Options:
        csv: Print CSV instead of a table.
        top: How many classes to list, the likeliest first.
        dataset: Read inputs as this dataset line says, not as the model file does; needed for
            pictures if an earlier version wrote the file. [default: the model file's]
        model: Your own network, if the file holds one: its line, such as mylab.nets:Net. No file
            has code imported, so this is your consent.
        encoder: The encoder of a model on embeddings, such as mylab.encoders:encode; your consent
            to import it.
    """
    from fedmirage.trained.model import load_trained
    from fedmirage.trained.prediction import as_csv, as_table
    from fedmirage.trained.prediction import predict as ask

    loaded = load_trained(model_file, model, dataset)
    loaded.check_top(top)
    found = list(ask(loaded, inputs, encoder))
    if csv:
        print(as_csv(loaded, found, top), end="")
    else:
        out.print(as_table(loaded, found, top))


def evaluate(
    model_file: Path,
    dataset: Annotated[str, "--dataset"],
    split: str = "test",
    json: bool = False,
    picture: Path | None = None,
    resamples: NotNegative = 1000,
    seed: NotNegative = 0,
    data_dir: str = "",
    download: Annotated[bool, "--download/--no-download"] = False,
    model: str = "",
) -> None:
    """Evaluate a trained model on data with labels: scores with intervals, by class and by site.

    Accuracy, balanced accuracy, macro-F1, ROC area, calibration, recall per class, confusion, and
    the accuracy for each value of the columns that the data have ("domain", and those that the
    line names with columns=). Size, channels and class names come from the model file.

    Example: fedmirage evaluate runs/one/model.safetensors --dataset "imagefolder(path='new')"

    Arguments:
        model_file: The model file of a run, such as runs/one/model.safetensors.
    Options:
        dataset: The data set, as for `fedmirage run`.
        split test|train|all: Which samples: the test split (held out as in a run if the files have
            none), the training split, or all.
        json: Print JSON instead of tables.
        picture: Draw the reliability of the probabilities into this PNG.
        resamples: Bootstrap resamples for the intervals; 0 leaves them out.
        seed: The seed of the resamples.
        data_dir: Where to look for files.
        download: Fetch a missing set from the hub.
        model: Your own network, if the file holds one: its line, such as mylab.nets:Net. No file
            has code imported, so this is your consent.
    """
    from fedmirage.trained.evaluation import evaluate as judge
    from fedmirage.trained.labelled import load_labelled
    from fedmirage.trained.model import load_trained
    from fedmirage.trained.shown import draw_reliability

    loaded = load_trained(model_file, model)
    samples = load_labelled(loaded.facts, dataset, split, data_dir, download)
    found = {"model": str(model_file), **judge(loaded, samples, resamples, seed)}
    show(found, json)
    if picture:
        say(err, f"picture: {draw_reliability(found, picture)}")


def show(found: dict[str, Any], json: bool) -> None:
    """Print an evaluation, as tables or as JSON."""
    from json import dumps

    from fedmirage.trained.shown import show_evaluation

    if json:
        print(dumps(found, indent=2))
    else:
        show_evaluation(out, found)


def export(
    model_file: Path,
    to: Annotated[str, "--to"],
    out_file: Annotated[Path, "--out"],
    model: str = "",
) -> None:
    """Export a trained model for other programs: raw inputs in, one logit per class out.

    Normalisation is inside, batches have any size, and the metadata say what the inputs and the
    classes are. Nothing is written unless the exported model gives the same answers.

    Example: fedmirage export runs/one/model.safetensors --to onnx --out model.onnx

    Arguments:
        model_file: The model file of a run, such as runs/one/model.safetensors.
    Options:
        to onnx|torch-export: The format.
        out_file: The file to write.
        model: Your own network, if the file holds one: its line, such as mylab.nets:Net. No file
            has code imported, so this is your consent.
    """
    from fedmirage.trained.export import export as write
    from fedmirage.trained.model import load_trained

    say(out, f"{to}: {write(load_trained(model_file, model), to, out_file)}")


def personal(
    run: str = "",
    memory: Path | None = None,
    partition: int | None = None,
    shared: Path | None = None,
    out_file: OutFile = None,
    allow: str = "",
    json: bool = False,
    resamples: NotNegative = 1000,
    seed: NotNegative = 0,
) -> None:
    """Assemble this node's personal model, evaluate it on held-out data, write it to a file.

    For methods that share only a part of the model (fedper, lg-fedavg, fedmd-cg, local). Run it on
    the node's host: the model, the data and the scores stay there.

    Example: fedmirage personal 0123456789abcdef --memory /srv/memory --out mine.safetensors

    Arguments:
        run: The id of the run in the memory; without one, lists the runs there.
    Options:
        memory: The node's memory, as in its --node-config; runs on one host have it in their own
            folder. [default: fedmirage/memory in FLWR_HOME]
        partition: Which client, if the memory has several.
        shared: The model file of the run, whose shared part may be newer than this node's.
            [default: the shared part as this node trained it last]
        out_file: Write the model here; only its owner can read it.
        allow: Modules that may be imported, as in --node-config.
        json: Print JSON instead of tables.
        resamples: Bootstrap resamples for the intervals; 0 leaves them out.
        seed: The seed of the resamples.
    """
    from fedmirage.common.memory import find_memory
    from fedmirage.trained.evaluation import evaluate as judge
    from fedmirage.trained.personal import assemble
    from fedmirage.trained.shown import show_kept_runs

    place = memory or find_memory({})
    if not run:
        show_kept_runs(out, place)
        return
    made = assemble(place, run, partition, shared, allow)
    found = judge(made.trained, made.hold_out(), resamples, seed)
    if out_file:
        say(err, f"model: {made.save(out_file)}")
    show(found, json)


def card(
    place: Path,
    dataset: str = "",
    split: str = "test",
    out_file: OutFile = None,
    resamples: NotNegative = 1000,
    data_dir: str = "",
    model: str = "",
) -> None:
    """Write a model card in Markdown: data, methods, rounds, privacy, scores, limits.

    It says what the model file and the results beside it say; what they do not is called unknown.

    Example: fedmirage card runs/one --dataset digits --out runs/one/card.md

    Arguments:
        place MODEL|RUN: A model file, or the folder of a run.
    Options:
        dataset: Evaluate on this data set, for scores with intervals. [default: the scores that
            the run recorded]
        split test|train|all: Which of its samples.
        out_file: Write it here instead of printing it.
        resamples: Bootstrap resamples for the intervals; 0 leaves them out.
        data_dir: Where to look for files.
        model: Your own network, if the file holds one: its line, such as mylab.nets:Net. No file
            has code imported, so this is your consent.
    """
    from fedmirage.common.drafts import write_whole
    from fedmirage.common.models.files import read_facts
    from fedmirage.trained.card import find_model, write_card
    from fedmirage.trained.evaluation import evaluate as judge
    from fedmirage.trained.labelled import load_labelled
    from fedmirage.trained.model import load_trained

    path = find_model(place)
    facts, found = read_facts(path), None
    if dataset:
        loaded = load_trained(path, model)
        found = judge(loaded, load_labelled(facts, dataset, split, data_dir), resamples)
    text = write_card(path, facts, found)
    if out_file:
        write_whole(out_file, text.encode())
        say(out, f"card: {out_file}")
    else:
        print(text, end="")
