"""The one Flower client.

It opens the round, lets every method begin, runs the training loop, lets every method end, and
packs the reply.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from logging import WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from flwr.common import NDArrays, Scalar, log

from fedmirage.client.data import LocalData
from fedmirage.client.diagnostics import local_model_scores
from fedmirage.client.dp import DpReply, Reply
from fedmirage.client.node.demands import Demands
from fedmirage.client.node.diary import note_run
from fedmirage.client.node.keeping import keep_run, require_same_scale
from fedmirage.client.node.redaction import tell
from fedmirage.client.objective import Objective
from fedmirage.client.preparation import hides_clients, prepare
from fedmirage.client.round import LocalClient, LocalRound
from fedmirage.client.train import train
from fedmirage.common.data.names import name_problem
from fedmirage.common.data.tables.comparison import schema_problem
from fedmirage.common.data.tables.statistics import add_up, find_unscaled
from fedmirage.common.data.view import ClientView
from fedmirage.common.device import arithmetic
from fedmirage.common.dp.ledger import FILE as RELEASES
from fedmirage.common.dp.settings import DpOn
from fedmirage.common.errors import FedmirageError, WireError
from fedmirage.common.learning.task import evaluate
from fedmirage.common.memory import LOCAL_EXAMPLES, LOCAL_MODEL, Memory, client_folder
from fedmirage.common.methods import Method, half
from fedmirage.common.models.base import Model
from fedmirage.common.own_code import explain_other_source
from fedmirage.common.run import Run, appearance, normalise_run, own_randomness
from fedmirage.common.secagg.flower import encode_update
from fedmirage.common.secagg.settings import SecAggFlower, SecAggOn
from fedmirage.common.secagg.sums import ROUND as SUMS_ROUND
from fedmirage.common.secagg.sums import SumsVector, require_same_table
from fedmirage.common.secagg.vector import SecureVector
from fedmirage.common.site_names import SITE
from fedmirage.common.wire import held_out
from fedmirage.common.wire import metrics as wire
from fedmirage.common.wire.manifest import from_arrays, to_arrays
from fedmirage.common.wire.payload import (
    LAYOUT,
    ONLY_SCORES,
    SHARED,
    Arrays,
    Sections,
    pack,
    unpack,
)
from fedmirage.common.wire.preparation import PREPARE
from fedmirage.common.wire.short import Wire
from fedmirage.common.wire.statistics import NORMALISATION, STATISTICS


@dataclass
class FederatedClient(NumPyClient):
    """One client of one run.

    Every message gets a new one, so what must outlive a round is never kept here.
    """

    run: Run
    view: ClientView
    model: Model  # its weights do not matter: every message brings its own
    memory_folder: Path
    own_data: bool = False  # the client has all of the node's own set, not a part of a common one
    demands: Demands = field(default_factory=Demands)  # what the node insists on
    site: str = ""  # the name of the node's site, if it has one
    # where the node has data of its own, as its owner wrote it into the node's configuration
    places: Mapping[str, str] = field(default_factory=dict)

    def get_properties(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Tell who this is and what form its data have, but nothing about their content.

        Or work for a while on what must be ready before this client's first round.
        """
        try:
            self.demands.check(self.run.config, self.ledger)
        except FedmirageError as error:
            return {"partition": self.view.partition, wire.ERROR: tell(error)}
        if STATISTICS in config:
            return self.add_up_columns()
        if PREPARE in config:
            self.normalise(config)
            local = LocalClient(**self.surroundings())
            return prepare(local, self.objectives(), float(config[PREPARE]))
        problem = schema_problem(self.view.dataset.schema, config)
        problem = problem or name_problem(self.view.dataset, config)
        if problem is not None:
            log(WARNING, "this node is not used: %s", problem[1])
            return {"partition": self.view.partition, wire.ERROR: problem[0]}
        if other := explain_other_source(self.run.config.own_code, config):
            log(WARNING, "this node is not used: %s", other)
            return {"partition": self.view.partition, wire.ERROR: other}
        form = appearance(self.view.dataset)
        if self.own_data:
            del form["fingerprint"]  # with it, a guess at the data could be confirmed
        note_run(self.run.config, self.view, self.own_data)
        named = {SITE: self.site} if self.site else {}
        return {"partition": self.view.partition, "own": self.own_data, **named, **form}

    def fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Train for one round; of an error, what the server may know travels back as a sentence."""
        try:
            return self._fit(parameters, config)
        except Exception as error:
            return [], 0, {LAYOUT: "", wire.ERROR: tell(error)}

    def _fit(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        started = time.perf_counter()
        self.demands.check(self.run.config, self.ledger)
        if (number := int(config["round"])) == SUMS_ROUND:
            return self.mask_columns(parameters)
        self.normalise(config)
        received = unpack(parameters, str(config[LAYOUT]))
        broadcast = received[SHARED]
        if ONLY_SCORES in config:
            return self.send(
                self.only_score(received, config), broadcast, number, only_metrics=True
            )
        release = self.find_release(config)
        reply = release.find_earlier() if release else None
        if reply is None:
            local = self.open(received, config)
            if self.run.config.shares_all and self.is_scored(local.number):
                local.report |= self.score_held_out(local.number)
            run, position = self.run, (local.number, local.partition)
            computing = arithmetic(run.config, run.device)
            with own_randomness(run.config, "client", *position), computing:
                reply = self.train_round(local, started)
            reply = release.protect(reply, broadcast) if release else reply
            wire.check_declared(reply.metrics, wire.declared_metrics(self.run))
        return self.send(reply, broadcast, number)

    def add_up_columns(self) -> dict[str, Scalar]:
        """Answer with the sums of a table's columns, unless the run hides single clients."""
        if hides_clients(self.run.config):
            refusal = "the server asks for the sums of this client alone, but the run hides them"
            return {"partition": self.view.partition, wire.ERROR: f"{refusal} (secagg, dp)"}
        sums = add_up(self.view.dataset, self.view.train)
        return {"partition": self.view.partition, STATISTICS: sums.astype("<f8").tobytes()}

    def mask_columns(self, parameters: NDArrays) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Answer a secure round with the sums of a table's columns, as a vector to be masked."""
        secagg, data = self.run.config.secagg_params, self.view.dataset
        columns = find_unscaled(data)
        if not isinstance(secagg, SecAggOn):
            raise WireError("the server asks for a secure sum, but this run has no secagg")
        require_same_table(columns, data.schema, parameters)
        return [SumsVector(secagg, columns).encode(add_up(data, self.view.train))], 1, {}

    def normalise(self, config: dict[str, Scalar]) -> None:
        """Take over the normalisation that the server has formed, if the data need one."""
        if find_unscaled(self.run.dataset):
            scale = config.get(NORMALISATION)
            self.apply_scale(scale)
            assert isinstance(scale, bytes)  # or it could not have been read
            require_same_scale(self.folder_of(str(config["token"])), scale)

    def apply_scale(self, scale: Scalar | None) -> None:
        """Normalise the data as written in a message."""
        self.run = normalise_run(self.run, scale)
        self.view = replace(self.view, dataset=self.run.dataset)

    def find_release(self, config: dict[str, Scalar]) -> DpReply | None:
        """Find what must be done with the reply before it leaves; None without dp."""
        if not isinstance(dp := self.run.config.dp_params, DpOn):
            return None
        token, number = str(config["token"]), int(config["round"])
        return DpReply(dp, self.folder_of(token), self.ledger, token, number)

    def open(self, received: Sections, config: dict[str, Scalar]) -> LocalRound:
        """Load the received weights over the remembered ones, and gather the data."""
        number = int(config["round"])
        memory = self.memory(config, number)
        broadcast = received.pop(SHARED)
        self.load(broadcast, memory)
        return LocalRound(
            **self.surroundings(),
            number=number,
            model=self.model,
            received=received,
            memory=memory,
            lr=self.run.config.learning_rate(number),
            broadcast=broadcast,
        )

    def surroundings(self) -> dict[str, Any]:
        """Gather what methods may know before any round: a `LocalClient`'s fields."""
        data, run = self.view.dataset, self.run
        resident = run.load(data.train, self.view.train)
        return {
            "partition": self.view.partition,
            "run": run,
            "data": LocalData(resident, data.mean, data.std, self.view.class_counts),
            "images": self.memory_folder.parent / "images" if run.config.save_images else None,
        }

    def train_round(self, local: LocalRound, started: float) -> Reply:
        """Let every method begin, train, let every method end; remember and report the outcome."""
        objectives = self.objectives()
        for objective in objectives:
            objective.begin(local)
        terms = train(local, objectives)
        self.model.eval()
        sections: Sections = {}
        for objective in objectives:
            sections |= objective.end(local)
        arrays, examples = self.check_finite(local), len(local.data) if local.steps else 0
        if self.run.keeps_local_models:
            local.memory.put(LOCAL_MODEL, arrays)
            local.memory.put(LOCAL_EXAMPLES, [np.array([examples], dtype=np.int64)])
        metrics = self.metrics(local, terms)
        local.memory.close()
        if not self.run.config.shares_all:
            keep_run(local.memory.folder, self.run, self.places)
        shared = self.run.shared.name(self.run.shared.pick(arrays, self.run.manifest))
        for objective in objectives:
            shared = objective.share(local, shared)
        metrics[wire.SECONDS] = seconds = time.perf_counter() - started
        local.note(terms, seconds)
        return Reply({**sections, SHARED: list(shared.values())}, examples, metrics)

    def check_finite(self, local: LocalRound) -> Arrays:
        """Return the trained weights; refuse those of a training that diverged."""
        arrays = to_arrays(self.model)
        for entry, array in zip(self.run.manifest, arrays, strict=True):
            if not np.isfinite(array).all():
                raise FedmirageError(
                    f"training diverged in round {local.number}: {entry.name!r} is not finite;"
                    f" lower lr (now {local.lr:g})"
                )
        return arrays

    def is_scored(self, number: int) -> bool:
        """Whether this site scores a model in this round, for a server without data."""
        return self.run.config.scored_at_sites(number) is not None

    def score_held_out(self, number: int) -> dict[str, int | float]:
        """Score the model as it is now on what this site holds out, if it holds out anything."""
        held, view = len(self.view.test_shard), self.view
        with own_randomness(self.run.config, "held-out", number, view.partition):
            scores = self.score(view.dataset.test, view.test_shard) if held else {}
        return held_out.report(held, scores)

    def only_score(self, received: Sections, config: dict[str, Scalar]) -> Reply:
        """Score the received model without training: the last one of a run, with which no round
        begins."""
        number = int(config["round"])
        self.load(received[SHARED], self.memory(config, number))
        metrics = self.score_held_out(number)
        wire.check_declared(metrics, wire.declared_metrics(self.run))
        return Reply({}, len(self.view.train), {**metrics})

    def send(
        self, reply: Reply, broadcast: NDArrays, number: int, only_metrics: bool = False
    ) -> tuple[NDArrays, int, dict[str, Scalar]]:
        """Pack the reply: as it is, or as one vector that can be masked."""
        secagg = self.run.config.secagg_params
        if isinstance(secagg, SecAggOn):
            numbers = {name: float(value) for name, value in reply.metrics.items()}
            vector = SecureVector(self.run, with_sections=not only_metrics)
            return [vector.encode(reply.sections, broadcast, reply.examples, numbers)], 1, {}
        if isinstance(secagg, SecAggFlower):  # metrics would be sent in clear, so they are not
            shared, examples = reply.sections[SHARED], reply.examples
            return *encode_update(self.run, shared, broadcast, examples), {}
        short = Wire(self.run)
        sections = short.shorten(reply.sections, broadcast, number, self.view.partition)
        flat, layout = pack(sections, short.declared)
        return flat, reply.examples, {**reply.metrics, LAYOUT: layout}

    def metrics(self, local: LocalRound, terms: dict[str, float]) -> dict[str, Scalar]:
        """Collect what this client reports about its training and about the resulting model."""
        config = self.run.config
        metrics: dict[str, Scalar] = {f"{wire.TERM}{name}": value for name, value in terms.items()}
        metrics |= {**local.report, wire.STEPS: local.steps, wire.SAMPLES: local.samples}
        metrics |= {wire.FELL_BACK: 1} if local.memory.fell_back else {}
        scores, held = dict[str, float](), len(self.view.test_shard)
        if config.scores_local_models and held:
            scores = self.score(self.view.dataset.test, self.view.test_shard)
            metrics |= {f"{wire.TEST_SHARD}{name}": value for name, value in scores.items()}
        if not config.shares_all and self.is_scored(local.number):
            metrics |= held_out.report(held, scores)
        wanted = config.diagnostics and config.server_reads_data and config.evaluates(local.number)
        if wanted and len(self.view.dataset.test):  # a node's own data may have no test part
            metrics |= local_model_scores(self.run, self.model, self.view)
        return metrics

    def evaluate(
        self, parameters: NDArrays, config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        """Score the received model on this client's validation samples.

        The parts of the model that this client keeps to itself complete it.
        """
        if not len(self.view.validation):
            return 0.0, 0, {}
        self.demands.check(self.run.config, self.ledger)
        self.normalise(config)
        self.load(parameters, self.memory(config, int(config["round"]) + 1))
        scores = self.score(self.view.dataset.train, self.view.validation)
        return scores.pop("loss"), len(self.view.validation), dict(scores)

    def objectives(self) -> list[Objective[Method]]:
        """Build the client halves of the methods line, from left to right.

        A method that replaces the data acts first, so that the others see what is trained on.
        """
        methods = sorted(self.run.config.method_list, key=lambda method: not method.replaces_data)
        halves = [(method, half("client", method, Objective)) for method in methods]
        return [kind(method) for method, kind in halves if kind is not None]

    def memory(self, config: dict[str, Scalar], number: int) -> Memory:
        """Open this client's memory of the run, or of the run that this one was started from."""
        token, _, after = str(config.get("parent", "")).partition("@")
        parent = self.folder_of(token) if token else None
        own = self.folder_of(str(config["token"]))
        since = int(config["since"]) if "since" in config else None
        return Memory(
            own, number, self.run.config.keep_models == "all", parent, int(after or 0), since
        )

    def folder_of(self, token: str) -> Path:
        """Where this client keeps what belongs to a run."""
        return client_folder(self.memory_folder, token, self.view.partition)

    @property
    def ledger(self) -> Path:
        """The file with all releases of this client, over all runs."""
        return self.memory_folder / f"client-{self.view.partition:05d}-{RELEASES}"

    def load(self, shared: NDArrays, memory: Memory) -> None:
        """Load what the server sent into the model.

        The other parts come from this client's own last model, at first from the run's seed.
        """
        run = self.run
        if len(shared) != len(run.shared):
            raise FedmirageError(
                f"the server sent {len(shared)} arrays, this model shares {len(run.shared)}; do"
                " both run the same version?"
            )
        arrays = run.initial
        if run.loaded != run.manifest:
            arrays = memory.get(LOCAL_MODEL) or arrays
        taken = run.loaded.pick(shared, run.shared)
        from_arrays(self.model, run.loaded.place(taken, arrays, run.manifest))

    def score(self, split: Any, indices: Any) -> dict[str, float]:
        """Compute the model's named metrics on some samples of this client."""
        run, samples = self.run, self.run.load(split, indices)
        with arithmetic(run.config, run.device):
            return evaluate(self.model, run.in_batches(samples), run.task, run.classes)
