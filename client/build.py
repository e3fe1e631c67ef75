"""From a configuration and a message's context to a client: its data, its model, its memory."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch
from flwr.app import Context

from fedmirage.client.client import FederatedClient
from fedmirage.client.node.demands import read_demands
from fedmirage.common import device
from fedmirage.common.data.catalogue.encoded import Embeddings
from fedmirage.common.data.catalogue.params import Hub, OwnParams, OwnTable, SkipParams
from fedmirage.common.data.loading import load
from fedmirage.common.data.partitions.counts import Indices
from fedmirage.common.data.partitions.named import divide
from fedmirage.common.data.partitions.params import Listed
from fedmirage.common.data.set import DataSet
from fedmirage.common.data.view import ClientView, own_view, share_test, view
from fedmirage.common.errors import ConfigurationError, DataError, FedmirageError
from fedmirage.common.memory import memory_folder
from fedmirage.common.method import NETWORK, parts_of
from fedmirage.common.models.base import Model
from fedmirage.common.own_code import require_allowed
from fedmirage.common.run import Run, make_run
from fedmirage.common.settings.config import RunConfig
from fedmirage.common.settings.language import write

PLACES = ("data", "schema")  # keys of a node's configuration that say where its data are


def build_client(
    config: RunConfig, context: Context, memory: Path | None = None, deployed: bool = False
) -> FederatedClient:
    """Build the client that answers one message.

    A deployed node imports no code and opens no file that a run names, unless its owner allows it.
    """
    opens_file = keeps_a_part(config)
    if deployed:
        require_allowed(config.own_code, str(context.node_config.get("allow", "")))
        config = use_own_weights(config, context) if opens_file else config
    processor = device.prepare(config, config.threads)
    client_view = load_view(config, context)
    run, model = run_of(config, client_view.dataset, processor, opens_file)
    own = "data" in context.node_config
    folder, demands = memory_folder(context, memory), read_demands(context.node_config)
    site = str(context.node_config.get("name", ""))
    places = {key: str(context.node_config[key]) for key in PLACES if key in context.node_config}
    return FederatedClient(run, client_view, model, folder, own, demands, site, places)


def load_view(config: RunConfig, context: Context) -> ClientView:
    """Load this node's part of the common data set, or, with 'data="..."', all of its own data.

    The latter is set with flower-supernode --node-config.
    """
    partition = context.node_config.get("partition-id")
    if partition is None:
        raise FedmirageError(
            "this node has no partition-id; start it with flower-supernode --node-config"
            " 'partition-id=N', N from 0"
        )
    own = context.node_config.get("data")
    if own is not None:
        skip = bool(context.node_config.get("skip", False))
        schema = str(context.node_config.get("schema", ""))
        return load_own_view(config, int(partition), str(own), schema, skip)
    return load_common_view(config, int(partition))


@lru_cache(maxsize=4)
def load_own_view(
    config: RunConfig, partition: int, path: str, schema: str, skip: bool = False
) -> ClientView:
    """Load all of the node's own data.

    `path` replaces the `path` of the dataset line, or the data folder if the line has none, and
    `schema` that of a table. Test samples are held out only if something is scored on the node.
    `skip` of the line does not count: the node's owner says whether a picture may be left out.
    """
    if len(config.dataset_list) > 1:
        raise FedmirageError(
            f"this node has data of its own, but dataset={config.dataset!r} has"
            f" {len(config.dataset_list)} sets and does not say which of them it is; name one"
        )
    (params,) = config.dataset_list
    line, folder = config.dataset, path
    inner = params.inner if isinstance(params, Embeddings) else params
    if isinstance(inner, OwnParams) and not isinstance(inner, Hub):
        place = {"path": path, "test_share": inner.test_share * config.holds_out}
        place |= {"skip": skip} if isinstance(inner, SkipParams) else {}
        if isinstance(inner, OwnTable):
            place["schema"] = require_schema(schema)
        own = params.place(**place) if isinstance(params, Embeddings) else None
        line = write(own or inner.model_copy(update=place))
        folder = config.data_dir
    dataset = load(line, folder or None)
    return own_view(dataset, partition, config.clients, config.validation, config.seed)


def require_schema(schema: str) -> str:
    """Return the path of the node's own copy of a table's schema; refuse a run without it."""
    if not schema:
        raise FedmirageError(
            "this node has a table of its own, and opens no file that a run names; its owner names"
            ' its copy of the schema beside the table: data="..." schema="..."'
        )
    return schema


@lru_cache(maxsize=4096)
def load_common_view(config: RunConfig, partition: int) -> ClientView:
    """Load a part of the common set; cached, since a simulation's worker serves many clients.

    A view holds positions only, so thousands of them take a few megabytes.
    """
    dataset, parts = deal_data(config)
    if not 0 <= partition < len(parts):
        raise FedmirageError(
            f"partition-id={partition}, but clients={config.clients}: ids go from 0 to"
            f" {config.clients - 1}"
        )
    part = view(
        dataset, parts[partition], partition, config.clients, config.validation, config.seed
    )
    if config.server_reads_data or config.partition_params.shares_samples:
        return part  # a random share of the test split looks like a draw from the training split
    return replace(part, test_shard=share_common_test(config)[partition])


@lru_cache(maxsize=2)
def share_common_test(config: RunConfig) -> list[Indices]:
    """Decide which client holds out which test samples, for a server without data."""
    return share_test(*deal_data(config), config.seed)


@lru_cache(maxsize=2)
def deal_data(config: RunConfig) -> tuple[DataSet, Sequence[Indices]]:
    """Map the common set from the cache, and decide which client holds which samples."""
    dataset = load(config.dataset, config.data_dir or None, config.download, any_of_hub=False)
    try:
        return dataset, divide(config, dataset)
    except ConfigurationError as error:
        if isinstance(config.partition_params, Listed):
            raise DataError(str(error)) from None  # what a node's own file holds stays in its log
        raise


def use_own_weights(config: RunConfig, context: Context) -> RunConfig:
    """Let a node begin with its own copy of the initial weights, `weights` of its configuration."""
    if not config.initial_weights:
        return config
    if (own := context.node_config.get("weights")) is None:
        raise FedmirageError(
            f"methods={config.methods!r} leaves a part of the network to each client, and this node"
            f" opens no file that a run names, such as initial-weights={config.initial_weights!r};"
            ' its owner names its own copy in weights="..."'
        )
    return config.model_copy(update={"initial_weights": str(own)})


def keeps_a_part(config: RunConfig) -> bool:
    """Whether clients begin with a part of the network that does not come from the server."""
    parts = parts_of(config.method_list)
    return not set(NETWORK) <= set(parts.sends if parts.loads is None else parts.loads)


@lru_cache(maxsize=2)
def run_of(
    config: RunConfig, dataset: DataSet, processor: torch.device, opens_file: bool
) -> tuple[Run, Model]:
    """Make the facts of a run, and its model on its device: one of each per process."""
    run, model = make_run(config, dataset, processor, opens_file)
    return run, device.place(model, processor, config)
