"""Downloads from the Hugging Face hub; used only when the user asks for it."""

import os
from pathlib import Path

from fedmirage.common.data.catalogue.params import DatasetParams
from fedmirage.common.errors import DataError


def fetch(params: DatasetParams, home: Path) -> None:
    """Put train.parquet and test.parquet of a published set into its folder.

    From then on it is found there like any other set.
    """
    card = params.about()
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # read when flwr-datasets is imported
    try:
        from flwr_datasets import FederatedDataset

        federated = FederatedDataset(
            dataset=card.hub, subset=card.subset or None, partitioners={"train": 1}, shuffle=False
        )
        splits = {
            "train.parquet": federated.load_split("train"),
            f"{card.test[0]}.parquet": federated.load_split(card.test[0]),
        }
        home.mkdir(parents=True, exist_ok=True)
        for name, split in splits.items():
            partial = home / f".{name}.{os.getpid()}"
            split.to_parquet(str(partial))
            os.replace(partial, home / name)
    # The hub's client raises dozens of kinds: no network, no such set, no space, ...
    except Exception as error:
        detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"dataset: {params.name} could not be downloaded from the hub as {card.hub}"
            f" ({type(error).__name__}: {detail}); get it from {card.origin} and put {card.files}"
            f" into {home}"
        ) from error
