"""A node's personal model, where a run shares only a part of it: assembled where it was trained.

The node's memory has its last local model. A newer shared part, from the model file of the run, can
replace the shared part in it, as at the beginning of a round. Nothing here leaves the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, RecordDict

from fedmirage.client.build import build_client
from fedmirage.client.client import FederatedClient
from fedmirage.client.node.keeping import FILE, KeptRun, read_kept_run
from fedmirage.client.node.settings import read_settings
from fedmirage.common.data.holdout import take
from fedmirage.common.data.tables.statistics import Scale
from fedmirage.common.errors import ConfigurationError, DataError
from fedmirage.common.memory import LOCAL_MODEL, Memory, client_folder
from fedmirage.common.method import NETWORK
from fedmirage.common.models.files import ModelFacts, collect_facts, save_model
from fedmirage.common.settings.language import write
from fedmirage.common.wire.files import read_arrays
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import Arrays
from fedmirage.trained.labelled import Labelled, label
from fedmirage.trained.model import TrainedModel

LATEST = 2**31  # later than every round


@dataclass(frozen=True)
class PersonalModel:
    """A node's own model, complete."""

    client: FederatedClient
    facts: ModelFacts
    remarks: list[str] = field(default_factory=list)

    @property
    def trained(self) -> TrainedModel:
        """The model as any other that is trained."""
        return TrainedModel(self.client.model.eval(), self.facts)

    def hold_out(self) -> Labelled:
        """Take the samples of this node on which it never trained."""
        view = self.client.view
        split, indices, what = view.dataset.test, view.test_shard, "this node's test samples"
        if not len(indices):
            split, indices = view.dataset.train, view.validation
            what = "this node's validation samples"
        if not len(indices):
            raise DataError(
                f"this node held nothing of {view.dataset.name} out; write the model with --out,"
                " and give fedmirage evaluate other data"
            )
        chosen = take(split, np.asarray(indices))
        return label(self.facts, view.dataset, chosen, view.dataset.name, what, [*self.remarks])

    def save(self, path: Path) -> Path:
        """Write it as a model file that only its owner can read."""
        run = self.client.run
        named = run.manifest.name(to_arrays(self.client.model))
        kept = {entry.name: named[entry.name] for entry in run.manifest.only(NETWORK)}
        save_model(kept, path, self.facts, private=True)
        return path


def list_runs(memory: Path) -> Iterator[tuple[str, int, KeptRun]]:
    """Yield the runs of which this node can assemble a model: id, client and settings."""
    for path in sorted(memory.glob(f"*/client-*/{FILE}")):
        partition = int(path.parent.name.removeprefix("client-"))
        yield path.parent.parent.name, partition, read_kept_run(path.parent)


def assemble(
    memory: Path,
    run: str,
    partition: int | None = None,
    shared: Path | None = None,
    allow: str = "",
) -> PersonalModel:
    """Assemble the personal model of a client; `allow` lists what may be imported for it."""
    number = choose_partition(memory, run) if partition is None else partition
    folder = client_folder(memory, run, number)
    kept = read_kept_run(folder)
    client = open_client(kept, memory, number, allow)
    past = Memory(folder, LATEST)
    if past.source is None or past.get(LOCAL_MODEL) is None:
        raise DataError(f"{folder} holds no model that can be read; restore it from a copy")
    newest = LATEST - (past.age or 0)
    remarks = [f"A newer memory in {folder} is damaged."] * past.fell_back
    facts = collect_facts(client.run, NETWORK, newest)
    if shared is None:
        from_arrays(client.model, past.get(LOCAL_MODEL) or [])
        remarks.append(f"The model as this node trained it in round {newest}.")
        return PersonalModel(client, facts, remarks)
    arrays, told = read_shared(shared, client)
    client.load(arrays, past)
    remarks.append(
        f"The part that stays here is of round {newest}, the shared part of round {told.round}."
    )
    return PersonalModel(client, facts, remarks)


def choose_partition(memory: Path, run: str) -> int:
    """Find the one client that took part in a run with this memory."""
    found = sorted(path.parent.name for path in (memory / run).glob(f"client-*/{FILE}"))
    if len(found) == 1:
        return int(found[0].removeprefix("client-"))
    if found:
        clients = ", ".join(str(int(name.removeprefix("client-"))) for name in found)
        raise ConfigurationError(f"{memory / run} holds clients {clients}; write --partition")
    known = ", ".join(dict.fromkeys(one for one, _, _ in list_runs(memory))) or "none"
    raise DataError(
        f"{memory} holds no personal model of a run {run!r}; it has runs {known}: check the id and"
        " --memory"
    )


def open_client(kept: KeptRun, memory: Path, partition: int, allow: str) -> FederatedClient:
    """Build the client as for a message of the run, on the CPU and without its initial weights."""
    changed: dict[str, Any] = {"initial-weights": "", "device": "cpu", "download": False}
    node: dict[str, Any] = {"partition-id": partition, "allow": allow, **kept.places}
    context = Context(0, 0, node, RecordDict(), {**kept.settings, **changed})
    client = build_client(read_settings(context), context, memory, deployed=True)
    client.apply_scale(Scale(kept.mean, kept.std).to_bytes())
    return client


def read_shared(path: Path, client: FederatedClient) -> tuple[Arrays, ModelFacts]:
    """Read the shared part from the model file of the same run."""
    arrays, found = read_arrays(path)
    facts, config = ModelFacts.parse(found, path), client.run.config
    wanted = config.methods, write(config.model_params)
    names = client.run.shared.names
    if (facts.methods, facts.model) != wanted or not set(names) <= set(arrays):
        raise ConfigurationError(
            f"{path} holds {' and '.join(facts.parts)} of a {facts.model} that {facts.methods!r}"
            f" trained; this run has methods={wanted[0]!r} and model={wanted[1]!r}: give its own"
            " model file"
        )
    picked = [arrays[name] for name in names]
    client.run.shared.check(picked)
    return picked, facts
