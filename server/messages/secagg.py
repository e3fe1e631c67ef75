"""A secure round of training: the server learns only the sum of the clients' messages.

It uses Flower's SecAgg+ workflow with our masks. There are four exchanges: public keys; key shares;
masked vectors, for which the clients train; shares that open the masks of the sum. A client that is
lost while training is left out, and the sum of the others is exact. A client that is lost earlier
ends this try, because the masks of the others depend on it; the round is then tried again without
it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common import (
    Code,
    FitRes,
    Parameters,
    Scalar,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState

from common.secagg.masks import install, mask
from common.secagg.settings import MODULUS_BITS, SecAggOn
from common.secagg.vector import SecureMeans, SecureVector, Vector
from common.wire.figures import ANSWERED, PARTICIPANTS
from common.wire.payload import LAYOUT, pack
from server.messages.courier import Courier
from server.messages.plain import Asked, Fit, FitOutcome, RoundFailed, explain, warn
from server.messages.sampling import PartitionProxy
from server.strategy.average import Results

install(import_module(SecAggPlusWorkflow.__module__), mask)


@dataclass
class SecureFit(Fit):
    """The server sees no single update: the strategy gets one reply for all that trained."""

    secagg: SecAggOn
    vector: SecureVector
    drawn: int  # clients per round

    def __call__(self, round_number: int, parameters: Parameters) -> FitOutcome:
        """Ask, wait, add up, aggregate."""
        started = time.perf_counter()
        asked = self.ask(round_number, parameters)
        least = self.secagg.least(self.drawn)
        if len(asked) < least:
            raise RoundFailed(
                f"round {round_number}: {len(asked)} clients are connected, and a secure sum of"
                f" {self.drawn} needs at least {least}."
            )
        courier = Courier(self.send, self.timeout, self.vector.size, asked)
        try:
            sums, active = self.protocol(round_number, asked, courier)
        finally:
            warn(courier.list_refused())
        answered = time.perf_counter()

        means = self.vector.decode(sums, parameters_to_ndarrays(parameters))
        self.count(round_number, active)
        results: Results = [(active[0], make_reply(means, active))] if means else []
        aggregated, metrics = self.strategy.aggregate_fit(round_number, results, [])
        clients = [{"partition": proxy.partition} for proxy in active]
        seconds = {"clients": answered - started, "aggregate": time.perf_counter() - answered}
        totals = (
            {"clients": means.clients, "examples": means.examples}
            if means
            else {"clients": 0, "examples": 0}
        )
        return FitOutcome(
            aggregated,
            metrics,
            clients,
            refused=courier.list_refused(),
            bytes_up=courier.up,
            bytes_down=courier.down,
            seconds=seconds,
            secagg=totals,
        )

    def protocol(
        self, round_number: int, asked: Asked, courier: Courier
    ) -> tuple[Vector, list[PartitionProxy]]:
        """Run the four exchanges; return the sum of the vectors, and the clients in it."""
        plan = self.secagg.key_plan(len(asked))
        workflow = SecAggPlusWorkflow(
            plan.shares,
            plan.threshold,
            max_weight=1.0,
            clipping_range=self.secagg.clip,
            quantization_range=2**self.secagg.bits,
            modulus_range=2**MODULUS_BITS,
            timeout=self.timeout,
        )
        handover, state = Handover(asked), WorkflowState()
        context = LegacyContext(
            Context(0, 0, {}, RecordDict(), {}), strategy=handover, client_manager=self.roster
        )
        context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord(
            {WorkflowKey.CURRENT_ROUND: round_number}
        )
        context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(
            ndarrays_to_parameters([]), True
        )

        def stage(
            what: str, step: Callable[[Any, LegacyContext, WorkflowState], bool], needed: int
        ) -> None:
            try:
                done, remaining = step(courier, context, state), len(state.active_node_ids)
            # raised for shares or keys that do not fit together
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise RoundFailed(
                    f"round {round_number}: secure aggregation failed while {what}: {error!r}."
                ) from None
            left = f"{remaining} of {len(asked)} clients"
            if remaining < needed:
                raise RoundFailed(
                    f"round {round_number}: secure aggregation was left with {left} while {what},"
                    f" {needed} are needed. {explain(courier.list_refused())}"
                )
            if not done:
                raise RoundFailed(
                    f"round {round_number}: secure aggregation was left with {left} while {what},"
                    " and some client has too few neighbours among them."
                    f" {explain(courier.list_refused())}"
                )

        try:
            stage("exchanging keys", workflow.setup_stage, len(asked))
            stage("sharing keys", workflow.share_keys_stage, len(asked))
        except RoundFailed:
            self.roster.resting |= {entry["partition"] for entry in courier.list_refused()}
            raise
        least = max(self.secagg.least(self.drawn), plan.threshold, self.min_replies)
        stage("training", workflow.collect_masked_vectors_stage, least)
        left = state.active_node_ids
        if not are_connected(left, state.nid_to_neighbours):
            raise RoundFailed(
                f"round {round_number}: the clients that are left have no masks in common."
                f" {explain(courier.list_refused())}"
            )
        active = sorted(
            (proxy for proxy, _ in asked if proxy.node_id in left),
            key=lambda proxy: proxy.partition,
        )
        stage("opening the sum", workflow.unmask_stage, plan.threshold)
        (mean,) = handover.aggregated
        return self.check_sum(mean * len(active), round_number, len(active)), active

    def check_sum(self, sums: Vector, round_number: int, clients: int) -> Vector:
        """Round the sum to multiples of `step`; refuse numbers that its clients cannot have sent.

        Such numbers show that masks did not cancel.
        """
        if (
            not np.isfinite(sums).all()
            or np.abs(sums).max(initial=0) > clients * self.secagg.clip + self.secagg.step
        ):
            raise RoundFailed(
                f"round {round_number}: the sum holds numbers that {clients} clients cannot have"
                " sent; a client's masks or message were not those of this version."
            )
        return np.asarray(np.rint(sums / self.secagg.step) * self.secagg.step, dtype=np.float64)


def make_reply(means: SecureMeans, active: list[PartitionProxy]) -> FitRes:
    """Make one reply that stands for all clients that answered; strategies average it alone."""
    flat, layout = pack(means.sections)
    whose = " ".join(proxy.cid for proxy in active)
    metrics: dict[str, Scalar] = {
        **means.figures,
        LAYOUT: layout,
        PARTICIPANTS: means.clients,
        ANSWERED: whose,
    }
    return FitRes(
        Status(Code.OK, ""), ndarrays_to_parameters(flat), max(1, means.examples), metrics
    )


class Handover(FedAvg):
    """Stands in for the strategy in Flower's workflow: passes instructions on, keeps the sum."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked
        self.aggregated: list[Vector] = []

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
        """Return what the run's own strategy has configured."""
        return self.asked

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: Any
    ) -> Any:
        """Keep the mean, which every result holds."""
        self.aggregated = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}


def are_connected(active: set[int], neighbours: dict[int, set[int]]) -> bool:
    """Check that masks link all remaining clients to each other.

    If they fell into separate groups, the sum of each group could be opened on its own.
    """
    reached, edge = set[int](), {min(active, default=0)} & active
    while edge:
        reached |= edge
        edge = {other for node in edge for other in neighbours[node] & active} - reached
    return reached == active
