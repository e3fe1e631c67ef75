"""Commands for a model that is trained: predict, evaluate, export, card, personal."""

from pathlib import Path
from typing import Annotated

import typer

from fedmirage.commands.console import out

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
