"""Downloads from the Hugging Face hub; used only when the user asks for it."""

import os
from pathlib import Path

from fedmirage.common.data.catalogue.params import DatasetParams, Hub
from fedmirage.common.errors import DataError


def fetch(params: DatasetParams, home: Path) -> None:
    """Put train.parquet and test.parquet of a set, or what its splits are called, into its folder.

    From then on it is found there like any other set. A set that the line names by its path on the
    hub may be without a test split.
    """
    card = params.about()
    train, test = params.train if isinstance(params, Hub) else "train", card.test[0]
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # read when flwr-datasets is imported
    try:
        from flwr_datasets import FederatedDataset

        federated = FederatedDataset(
            dataset=card.hub, subset=card.subset or None, partitioners={train: 1}, shuffle=False
        )
        splits = {f"{train}.parquet": federated.load_split(train)}
        try:
            splits[f"{test}.parquet"] = federated.load_split(test)
        except ValueError:  # there is no such split
            if not isinstance(params, Hub):
                raise
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
