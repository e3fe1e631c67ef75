"""Which objects hold the training and the test data that were given, and whose they are."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedmirage.common.data.partitions.listed import order_clients
from fedmirage.common.errors import DataError

SPLITS = ("train", "test")


def list_parts(train: Any, test: Any) -> Iterator[tuple[str, str, int, Any]]:
    """List every object with its name for sentences, its split and its client."""
    if is_split_dict(train):
        if test is not None:
            raise DataError("there are two test splits: test=, and that in the dict; keep one")
        train, test = open_splits(train, "it")
    many, own_tests = list_clients(train), 0
    if not many:
        raise DataError("there is no client in it; give the data of one client or more")
    for name, client, given in many:
        if hasattr(given, "iloc") and hasattr(given, "to_parquet"):  # a DataFrame of pandas
            raise DataError(
                f"{name} is a DataFrame, whose columns need a schema; save it with"
                " to_parquet('table.parquet'), draft the schema with `fedmirage schema"
                " table.parquet --label COLUMN > schema.toml`, and write"
                " dataset=\"table(path='table.parquet', schema='schema.toml')\""
            )
        if is_split_dict(given):
            given, tested = open_splits(given, name)
            if tested is not None:
                own_tests += 1
                yield f"the test split of {name}", "test", client, tested
        yield name, "train", client, given
    if own_tests and (test is not None or own_tests < len(many)):
        raise DataError(
            "some clients have a test split of their own; give one for every client, or test= alone"
        )
    if test is not None:
        yield from (
            (f"test of {name}" if client >= 0 else "the test split", "test", -1, given)
            for name, client, given in list_clients(test)
        )


def list_clients(given: Any) -> list[tuple[str, int, Any]]:
    """List what each client holds; or one object, of nobody in particular."""
    if hasattr(given, "load_partition") and hasattr(given, "num_partitions"):
        try:
            given = [given.load_partition(number) for number in range(given.num_partitions)]
        except Exception as error:  # flwr-datasets' partitioners raise several kinds
            raise DataError(
                f"the partitioner cannot divide its dataset ({type(error).__name__}: {error});"
                " assign partitioner.dataset first"
            ) from error
    if isinstance(given, Mapping):
        named = enumerate(order_clients(given))
        return [(f"client {number} ({key!r})", number, given[key]) for number, key in named]
    if isinstance(given, list):
        return [(f"client {number}", number, held) for number, held in enumerate(given)]
    return [("the training data", -1, given)]


def is_split_dict(given: Any) -> bool:
    """Whether this holds splits by name, as a DatasetDict does."""
    return isinstance(given, Mapping) and "train" in given


def open_splits(given: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    """Take both splits out of a dict that has no others."""
    if others := [key for key in given if key not in SPLITS]:
        raise DataError(
            f"{name} has the splits {', '.join(map(str, given))}; give those that you mean:"
            f" OwnData(data['train'], test=data[{others[0]!r}])"
        )
    return given["train"], given.get("test")
