"""Actors on the hosts of a cluster; the files of a client travel with its messages."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from flwr.app import Context, Message

from fedmirage.client.node.redaction import VARIABLE
from fedmirage.common.errors import TRACEBACK, FedmirageError, reason
from fedmirage.common.settings.config import RunConfig
from fedmirage.runtimes.actors import ActorWorker, ClientAppActor, Store
from fedmirage.runtimes.cluster import belongings
from fedmirage.runtimes.cluster.belongings import Changes, Files
from fedmirage.runtimes.cluster.hosts import Requirements, find_faults, own_name
from fedmirage.runtimes.parcels import LostWorkerError, QueuedMessage
from fedmirage.runtimes.processes import Processes

PLACEMENT = "SPREAD"  # over as many hosts as there are, as Ray's scheduler sees fit


class ClusterActor(ClientAppActor):
    """Answers messages on any host, with copies of the client's files in a folder of its own."""

    def __init__(self, settings: dict[str, Any], required: Requirements, folder: str) -> None:
        if faults := find_faults(required):  # the host may have joined after all were asked
            raise FedmirageError(f"host {own_name()} {'; '.join(faults)}")
        self.home, self.folder = Path(tempfile.mkdtemp(prefix="fedmirage-actor-")), folder
        mark = f"FEDMIRAGE_ACTOR={secrets.token_hex(8)}"
        self.processes = Processes(mark, self.home, adopted=True).__enter__()  # clears up after it
        os.environ[VARIABLE] = str(self.home / TRACEBACK)
        super().__init__(settings, str(self.home / belongings.MEMORY))
        self.settings = settings

    def describe(self) -> dict[str, str]:
        """Say where it is, on what it computes, and which data it has."""
        from fedmirage.client.build import deal_data
        from fedmirage.common import device
        from fedmirage.common.settings.config import validate

        config = validate(self.settings)
        dataset, _ = deal_data(config)
        place = device.pick(config.device).type
        return {"host": own_name(), "device": place, "fingerprint": dataset.fingerprint}

    def answer_with_files(
        self, parcel: bytes, references: list[ray.ObjectRef[list[bytes]]], files: Files
    ) -> tuple[Message, Context, Changes]:
        """Answer a message of a client that has these files; return how they have changed."""
        before = belongings.write_files(self.home, files)
        try:
            message, context = self.answer(parcel, references)
            belongings.rename(message, str(self.home), self.folder)
            return message, context, belongings.find_changes(self.home, before)
        finally:
            belongings.empty(self.home)


@dataclass
class Crew:
    """What all actors of a run have in common, and what the first of them has said."""

    config: RunConfig
    folder: Path  # of the run, on this host
    threads: int
    gpu_share: float
    required: Requirements
    fingerprint: str = ""  # of the data; of whoever says so first, if the server reads none

    def __post_init__(self) -> None:
        self.store = Store()
        self.first: Mapping[str, str] = {}  # the actor with which all others must agree

    def check(self, said: Mapping[str, str]) -> None:
        """Refuse an actor with other data, or on another kind of device, than the others."""
        self.first = self.first or said
        self.fingerprint = self.fingerprint or said["fingerprint"]
        if said["fingerprint"] != self.fingerprint:
            raise LostWorkerError(
                f"host {said['host']} has another version of the data; copy them there from here"
            )
        if said["device"] != self.first["device"]:
            places = (f"{one['device']} on host {one['host']}" for one in (self.first, said))
            raise LostWorkerError(
                f"clients would compute on {' and on '.join(places)}, with other numbers; write"
                " --device cpu, or let torch find the GPUs of all hosts"
            )


class ClusterWorker(ActorWorker):
    """One actor of a cluster, as the grid sees it."""

    remedy = "the cluster has no room for it; wait, add a host, or lower --threads"

    def __init__(self, crew: Crew) -> None:
        self.crew, self.ready = crew, False
        memory = crew.folder / belongings.MEMORY
        super().__init__(crew.config, memory, crew.gpu_share, crew.store)

    def start_actor(self) -> Any:
        """Ask the cluster for an actor, wherever it has room."""
        kind = ray.remote(ClusterActor).options(
            num_cpus=self.crew.threads, num_gpus=self.gpu_share, scheduling_strategy=PLACEMENT
        )
        return kind.remote(self.config.flat(), self.crew.required, str(self.crew.folder))

    def check_start(self, said: Any) -> None:
        """Ask which data it has and on what it computes."""
        self.crew.check(ray.get(self.actor.describe.remote()))
        self.ready = True

    def send(self, job: QueuedMessage, context: Context) -> None:
        """Let it answer a message with what its client keeps in files."""
        parcel = job.load.pack((job.message, context))
        partition = int(context.node_config["partition-id"])
        files = belongings.pack_files(self.crew.folder, job.message, partition)
        references = self.store.put(job.load)
        self.results.append(self.actor.answer_with_files.remote(parcel, references, files))

    def receive(self) -> tuple[Message, Context]:
        """Wait for the next reply, and keep what its client keeps."""
        message, context, changes = self.await_result()
        try:
            belongings.apply_changes(self.crew.folder, changes)
        except OSError as error:
            why = f"what it remembers cannot be kept: {reason(error)}"
            raise LostWorkerError(why) from None
        return message, context

    def replace(self) -> ClusterWorker:
        """Ask for another actor, which begins as soon as a host has room for it."""
        self.stop()
        return ClusterWorker(self.crew)
