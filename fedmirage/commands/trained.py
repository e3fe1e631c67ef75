"""Commands for a model that is trained: predict, evaluate, export, card, personal."""

from pathlib import Path
from typing import Annotated

import typer

from fedmirage.commands.console import err, out
from fedmirage.show.words import say

ModelFile = Annotated[
    Path, typer.Argument(help="The model file of a run, such as runs/one/model.safetensors.")
]
Network = Annotated[
    str,
    typer.Option(
        help="Your own network, if the file holds one: its line, such as mylab.nets:Net. No file"
        " has code imported, so this is your consent."
    ),
]
DataFolder = Annotated[str, typer.Option("--data-dir", help="Where to look for files.")]
Encoder = Annotated[
    str,
    typer.Option(
        help="The encoder of a model on embeddings, such as mylab.encoders:encode; your consent to"
        " import it."
    ),
]


def predict(
    model_file: ModelFile,
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="Pictures, folders with pictures, arrays (.npz, .npy), rows (.csv, .parquet,"
            " .jsonl)."
        ),
    ],
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    top: Annotated[int, typer.Option(help="How many classes to list, the likeliest first.")] = 1,
    dataset: Annotated[
        str,
        typer.Option(
            help="Read inputs as this dataset line says, not as the model file does; needed for"
            " pictures if an earlier version wrote the file.",
            show_default="the model file's",
        ),
    ] = "",
    model: Network = "",
    encoder: Encoder = "",
) -> None:
    """Predict classes with a trained model: a row per input, with the probability of its class.

    Inputs are read, resized and normalised exactly as in training: the model file says how.

    Example: fedmirage predict runs/one/model.safetensors photos/ --top 3
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
    model_file: ModelFile,
    dataset: Annotated[str, typer.Option(help="The data set, as for `fedmirage run`.")],
    split: Annotated[
        str,
        typer.Option(
            help="Which samples: the test split (held out as in a run if the files have none), the"
            " training split, or all.",
            metavar="test|train|all",
        ),
    ] = "test",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the reliability of the probabilities into this PNG.")
    ] = None,
    resamples: Annotated[
        int, typer.Option(help="Bootstrap resamples for the intervals; 0 leaves them out.", min=0)
    ] = 1000,
    seed: Annotated[int, typer.Option(help="The seed of the resamples.", min=0)] = 0,
    data_dir: DataFolder = "",
    download: Annotated[bool, typer.Option(help="Fetch a missing set from the hub.")] = False,
    model: Network = "",
) -> None:
    """Evaluate a trained model on data with labels: scores with intervals, by class and by site.

    Accuracy, balanced accuracy, macro-F1, ROC area, calibration, recall per class, confusion, and
    the accuracy for each value of the columns that the data have ("domain", and those that the
    line names with columns=). Size, channels and class names come from the model file.

    Example: fedmirage evaluate runs/one/model.safetensors --dataset "imagefolder(path='new')"
    """
    from json import dumps

    from fedmirage.trained.evaluation import evaluate as judge
    from fedmirage.trained.labelled import load_labelled
    from fedmirage.trained.model import load_trained
    from fedmirage.trained.shown import draw_reliability, show_evaluation

    loaded = load_trained(model_file, model)
    samples = load_labelled(loaded.facts, dataset, split, data_dir, download)
    found = {"model": str(model_file), **judge(loaded, samples, resamples, seed)}
    if json:
        print(dumps(found, indent=2))
    else:
        show_evaluation(out, found)
    if picture:
        say(err, f"picture: {draw_reliability(found, picture)}")
